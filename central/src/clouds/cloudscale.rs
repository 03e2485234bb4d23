//! cloudscale.ch.
