"""A method of another package runs in a process of its own, without the truth.

The diagnoser does not import code that it does not know. It writes the flow records and the
topology into an empty folder, starts an interpreter there with a clean environment
(:mod:`~llmprism.isolation.inside`), and reads tables back, which it checks
(:mod:`~llmprism.isolation.runner`). Time, memory and file size have limits, and every process that
the method has started is ended with it. So a crash, a hang or too much memory is one error with a
reason, and nothing else changes.

Nothing in the folder, the environment or the arguments leads to the truth of a simulated run. That
is no defence against malicious code: do not run programs of unknown origin.
"""
