"""The ideas of ``prism``, each with a picture of true data: docs/prism.md."""
