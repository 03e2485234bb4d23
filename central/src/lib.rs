//! Mooring.
