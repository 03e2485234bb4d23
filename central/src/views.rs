//! What is kept of API objects.

pub mod creation_asked;
pub mod namespace_view;
pub mod service_view;
