//! Linode.
