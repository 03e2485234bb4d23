//! The suites are in `tests/`: `wire` and `long`.
