//! `kubectl mooring`, with the rights of a viewer and with fewer, on a real API server: it shows, finds out, plans and
//! bundles, and reads no Secret.

mod bundle;
mod doctor;
mod run;
mod status;
