"""Faster scans for some architectures; each is held equal to the plain scan of zoo.recurrence by the tests."""
