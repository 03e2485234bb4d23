//! Addresses of PhoenixNAP, from the purchase of a block to an answer on its VLAN and back: what
//! `make demo-baremetal` shows, with one server.

use mooring_demo::baremetal::{obey, prove};
use mooring_test_netlab::netlab::in_netlab;
use mooring_test_netlab::vm::is_vm;

const NAME: &str =
    "vlan::phoenixnap::a_service_is_answered_on_a_vlan_of_a_block_that_is_bought_and_given_back";

#[test]
fn a_service_is_answered_on_a_vlan_of_a_block_that_is_bought_and_given_back() {
    if is_vm() {
        return obey();
    }
    in_netlab(async || {
        prove(NAME)
            .await
            .unwrap_or_else(|error| panic!("{error:#}"));
    });
}
