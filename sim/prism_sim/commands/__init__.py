"""What the subcommands of ``prism-sim`` do.

Each module is free of heavy imports at its top, so that ``prism-sim --help`` stays quick; what
a command needs it imports when it runs. Commands that are one long question (``regress``,
``whatif``, ``sweep``, ``reproduce``) are whole modules here, options and all; the others are
read in ``cli``.
"""
