"""The operator's page: one self-contained HTML file that needs no network.

It begins with the answers (:mod:`~.answers`): sentences, and charts that a script in the page
draws. The jobs and all findings follow. Nothing is needed but a folder with a diagnosis, its flow
records and its topology. Text comes from jinja2 templates that escape every value, since users
choose the names of jobs. The page is a pure function of the folder: the same folder gives the same
bytes.
"""
