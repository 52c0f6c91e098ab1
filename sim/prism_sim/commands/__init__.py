"""What the subcommands of ``prism-sim`` do, apart from reading their options.

Each module is free of the command-line library and of heavy imports at its top, so that
``prism-sim --help`` stays quick; what a command needs it imports when it runs.
"""
