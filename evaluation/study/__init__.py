"""Both methods on hostile worlds, and what each part of ``prism`` contributes.

These worlds were drawn while the method was written. The exam (:mod:`evaluation.exam`) grades it.
"""
