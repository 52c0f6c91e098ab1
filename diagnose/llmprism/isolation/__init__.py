"""A method of another package runs in a process of its own, without the truth.

The diagnoser does not import code that it does not know. It writes the flow records and the
topology into a new folder, starts an interpreter there with a clean environment, and reads tables
back, which it checks (:mod:`~llmprism.isolation.runner`). A *supervisor* process limits time,
memory and file size, and ends every process that the method has started
(:mod:`~llmprism.isolation.supervisor`). So a crash, a hang or too much memory is one error with a
reason, and nothing else changes.

The truth of a simulated run is hidden: on Linux the supervisor covers it with empty files of the
same names, which only this process sees, and notices if one of them is opened
(:mod:`~llmprism.isolation.hiding`). Where the system does not allow this, the true files are
watched, so an attempt is still reported, but the method could read them. Neither is a defence
against malicious code: do not run programs of unknown origin.
"""
