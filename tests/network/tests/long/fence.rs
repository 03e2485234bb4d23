//! The fence as the real daemon meets it: what it does where there is none, and what it writes
//! about segments where there is one.

mod policies;
mod segments;
mod self_test;
