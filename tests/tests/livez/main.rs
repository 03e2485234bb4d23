//! `/livez`, `/healthz` and `/services` of a real `mooring-node`, asked by raw sockets as load
//! balancers ask.

mod changes;
mod daemon;
mod http;
mod services;
