//! `/livez`, `/healthz` and `/services` of a real `mooring-node`, asked by raw sockets as load
//! balancers ask.

mod beside;
mod changes;
mod daemon;
mod flood;
mod fuzz;
mod http;
mod monitor;
mod proxy;
mod services;
mod update;
