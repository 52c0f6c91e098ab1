"""The subcommands of ``prism-sim``.

Modules have no heavy imports at their top, so that ``prism-sim --help`` is fast; a command imports
its dependencies when it runs. Commands with many options (``regress``, ``whatif``, ``sweep``)
are whole modules here, options included; the options of the others are in ``cli``.
"""
