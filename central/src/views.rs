//! What is kept of API objects.

pub mod namespace_view;
pub mod service_view;
