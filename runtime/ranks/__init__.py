"""The common part of runtimes with several ranks, whatever transfers their data."""
