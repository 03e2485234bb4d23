//! The acceptance cases of the drop-in replacement for Linode's Go controller, each with the tests that show it:
//! those of its unit tests and of its end-to-end suite, and what its users reported.
//!
//! It is checked that there is such a test. What it shows, it says itself.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// A case by its name upstream, and its tests here.
const CASES: &[(&str, &[&str])] = &[
    // --- unit tests: load balancers --------------------------------------------------------------
    (
        "create without firewall, with an id, with an invalid id",
        &[
            "new_nodebalancer_is_made_with_all_its_parts",
            "a_firewall_by_its_number_is_only_attached_and_detached",
            "numbers_are_positive_and_plain",
        ],
    ),
    (
        "create with an ACL: allow list, deny list",
        &[
            "an_acl_makes_a_firewall_which_follows_it_and_goes_with_it",
            "allowed_are_accepted_and_denied_are_dropped",
        ],
    ),
    (
        "create with an ACL: both lists, none",
        &["acl_that_cannot_be_understood_is_told_with_an_example"],
    ),
    (
        "create: a node has no addresses",
        &[
            "nodes_are_reached_by_ipv6_if_the_service_says_so",
            "nothing_leaves_while_nodes_are_unknown",
        ],
    ),
    (
        "VPC backends: range inside and outside of the flag's subnet",
        &["range_lies_within_that_of_the_flag"],
    ),
    (
        "VPC backends: the five rows of precedence",
        &[
            "nodes_are_reached_by_the_subnet_that_says_most",
            "new_ones_take_their_addresses_from_the_range_that_is_said",
            "nodes_of_a_vpc_are_reached_there",
        ],
    ),
    (
        "global tags",
        &[
            "tags_are_a_set_after_cluster_and_flags",
            "tags_with_spaces_and_twice_cost_one_write",
        ],
    ),
    (
        "reserved address at creation and later",
        &["a_reserved_address_is_taken_at_creation_and_another_one_is_told_to_be_ignored"],
    ),
    (
        "update: add a node",
        &[
            "a_node_that_joins_after_the_move_costs_one_write_for_each_port",
            "nodes_that_stay_are_not_touched",
        ],
    ),
    (
        "update: annotation, port annotation, tags, proxy protocol",
        &[
            "each_difference_is_one_step_with_its_impact",
            "a_port_that_changes_disturbs_no_other",
            "sv_14_a_changed_annotation_is_taken_up",
        ],
    ),
    (
        "update: TLS port",
        &["a_certificate_is_presented_and_its_successor_within_a_minute"],
    ),
    (
        "update: another nodebalancer-id",
        &["a_service_that_names_another_one_gives_up_what_it_had"],
    ),
    (
        "update: firewall by id, by ACL, changed, removed, one after the other",
        &[
            "each_leads_to_each_other",
            "a_number_in_place_of_an_acl_takes_the_own_firewall_away",
        ],
    ),
    (
        "build the request",
        &[
            "new_nodebalancer_is_made_with_all_its_parts",
            "defaults_are_those_of_the_go_controller",
        ],
    ),
    (
        "ensure deleted",
        &[
            "sd_01_deletion_takes_the_load_balancer_away_and_tells_so",
            "sd_03_a_load_balancer_that_is_gone_already_holds_nothing_up",
            "a_reserved_address_is_released_only_if_the_service_says_so",
        ],
    ),
    (
        "ensure deleted: the release of the address fails",
        &[
            "a_release_that_fails_keeps_the_nodebalancer_and_is_tried_again",
            "an_address_that_was_never_reserved_hinders_no_deletion",
        ],
    ),
    (
        "preserve",
        &[
            "with_preserve_the_nodebalancer_stays_without_marks_and_with_what_it_has",
            "with_preserve_the_former_one_stays_and_bears_no_mark_any_more",
        ],
    ),
    (
        "ensure existing, ensure new, ensure with a missing id",
        &[
            "an_idle_cluster_costs_no_write_and_a_change_of_nothing_neither",
            "sv_01_a_service_gets_finalizer_load_balancer_status_and_events",
            "one_that_is_not_there_is_told_and_none_is_made_in_its_place",
        ],
    ),
    (
        "status: IPv4, IPv6, host name, environment",
        &[
            "the_status_has_host_name_and_addresses_as_asked_for",
            "a_service_can_say_otherwise_than_the_environment",
        ],
    ),
    (
        "clean-up asks nothing without the annotation",
        &["what_is_unchanged_is_looked_at_and_never_written"],
    ),
    (
        "update without nodes",
        &[
            "without_any_node_nothing_is_done",
            "no_node_at_all_is_told_and_no_failure",
        ],
    ),
    (
        "found by status: host name, IPv4, IPv6",
        &[
            "status_shows_a_nodebalancer_by_address_or_else_by_host_name",
            "a_cluster_that_comes_over_sees_no_write_at_all",
        ],
    ),
    ("throttle", &["throttle_is_cut_and_never_an_error"]),
    (
        "port configuration",
        &[
            "defaults_are_those_of_the_go_controller",
            "each_annotation_says_one_thing",
            "port_wins_over_default",
            "what_is_no_value_of_a_port_is_told_with_what_is",
            "mixed_protocols_have_values_of_their_own",
        ],
    ),
    (
        "TLS Secret of a port",
        &[
            "secrets_are_those_of_https_ports",
            "secret_that_cannot_be_presented_is_told_and_all_stays",
        ],
    ),
    (
        "names of nodes",
        &["labels_of_nodes_are_within_what_linode_takes"],
    ),
    (
        "type of the NodeBalancer",
        &[
            "type_is_read_in_any_case_or_is_that_of_the_flag",
            "the_type_is_that_of_the_creation",
        ],
    ),
    (
        "front end in a VPC",
        &["front_end_is_named_by_number_or_by_both_names"],
    ),
    // --- unit tests: machines, routes, ranges ----------------------------------------------------
    (
        "instances: existence, look-up, addresses, order",
        &[
            "describes_linode_like_go_controller",
            "addresses_keep_order_of_go_controller",
            "external_subnet_makes_private_addresses_external",
            "reads_ids_in_written_form_only",
            "a_node_is_found_by_its_public_address",
            "only_shut_down_server_is_stopped",
        ],
    ),
    (
        "instances: an error of VPCs keeps what is known",
        &[
            "unreadable_vpcs_fail_listing_but_not_look_up",
            "vpcs_that_cannot_be_read_cost_no_node",
        ],
    ),
    (
        "VPCs: ids, names, flags",
        &[
            "finds_recreated_vpc",
            "reports_unknown_names",
            "numbers_need_no_search",
        ],
    ),
    (
        "firewalls: what is a changed rule",
        &[
            "only_the_meaning_of_rules_counts",
            "rules_are_as_many_as_it_takes",
        ],
    ),
    (
        "routes",
        &[
            "rt_01_pod_cidrs_are_ranges_on_interfaces_of_both_generations",
            "rt_03_both_families_are_routed_or_the_node_is_not",
            "rt_04_the_route_of_a_deleted_node_goes",
            "rt_05_hand_made_ranges_are_left_alone",
            "routes_need_a_cluster_cidr",
        ],
    ),
    (
        "node controller",
        &["la_08_the_host_and_the_addresses_are_written_as_the_go_controller_does"],
    ),
    (
        "node IPAM",
        &[
            "allocation_needs_one_ipv4_range",
            "existing_pod_cidrs_are_kept_and_occupied",
            "the_block_at_the_end_of_the_subnet_is_reserved",
            "pod_cidrs_are_where_the_go_controller_puts_them",
            "ipv6_comes_from_the_interface_in_the_vpc_of_both_generations",
        ],
    ),
    (
        "token file, region, prefix, type of load balancers",
        &[
            "token_file_overrides_variable",
            "pr_18_a_token_that_is_replaced_in_the_file_is_used_without_a_restart",
            "reports_all_faults_without_secrets",
            "pr_21_reports_all_wrong_flags_of_node_balancers_at_once",
        ],
    ),
    (
        "token checker",
        &[
            "refusal_at_start_is_an_error_and_nothing_else_is",
            "refused_variable_ends_the_program",
        ],
    ),
    (
        "service controller: deletion, change of the type",
        &[
            "a_service_that_becomes_another_type_is_cleaned_up_and_can_come_back",
            "a_service_of_the_go_controller_that_becomes_another_type_leaves_nothing",
        ],
    ),
    // --- end to end ------------------------------------------------------------------------------
    (
        "ccm-resources",
        &[
            "its_daemon_set_runs_central_with_another_image_alone",
            "way_a_and_back_again_writes_nothing_in_the_cloud",
        ],
    ),
    (
        "lb-simple",
        &["sv_01_a_service_gets_finalizer_load_balancer_status_and_events"],
    ),
    (
        "lb-single-tls, lb-with-http-to-https",
        &["a_certificate_is_presented_and_its_successor_within_a_minute"],
    ),
    (
        "health checks",
        &[
            "each_annotation_says_one_thing",
            "sv_17_sv_18_the_health_check_follows_the_traffic_policy_there_and_back",
        ],
    ),
    (
        "lb-hostname-only-ingress",
        &["the_status_has_host_name_and_addresses_as_asked_for"],
    ),
    (
        "lb-update-port",
        &[
            "sv_08_listeners_follow_the_ports_and_the_others_keep_serving",
            "ports_of_the_firewall_follow",
        ],
    ),
    (
        "lb-with-node-addition",
        &["ns_01_a_third_node_becomes_a_member_and_an_event_tells_so"],
    ),
    (
        "lb-created-with-specified-nb-id, lb-created-with-new-nb-id, lb-updated-with-nb-id",
        &[
            "a_service_gets_the_nodebalancer_that_it_names_and_it_goes_with_the_service",
            "a_service_that_names_another_one_gives_up_what_it_had",
        ],
    ),
    (
        "lb-delete-svc-no-nb, -use-new-nbid, -use-specified-nb",
        &[
            "a_service_whose_chosen_one_is_gone_can_be_deleted",
            "a_service_of_another_type_gives_up_the_one_that_it_named",
        ],
    ),
    ("lb-premium-nb", &["the_type_is_that_of_the_creation"]),
    (
        "reserved-ip-…",
        &[
            "an_address_that_is_not_reserved_is_told_in_the_words_of_the_cloud",
            "one_reserved_address_is_given_to_one_service_alone",
        ],
    ),
    (
        "fw-use-specified-nb, lb-fw-update-acl, lb-fw-delete-acl",
        &[
            "the_own_firewall_follows_to_the_one_that_is_named",
            "an_acl_makes_a_firewall_which_follows_it_and_goes_with_it",
        ],
    ),
    (
        "lb-with-proxyprotocol-…",
        &["port_wins_over_default", "each_annotation_says_one_thing"],
    ),
    (
        "lb-with-udp-ports…",
        &[
            "udp_beside_tcp_on_one_number_are_two_configs_that_do_not_disturb_each_other",
            "without_a_period_and_for_udp_it_is_taken_out_at_once",
        ],
    ),
    (
        "lb-with-vpc-backends, lb-with-ipv6-backends",
        &[
            "nodes_of_a_vpc_are_reached_there",
            "nodes_are_reached_by_ipv6_if_the_service_says_so",
        ],
    ),
    (
        "route-controller-test",
        &["rt_01_pod_cidrs_are_ranges_on_interfaces_of_both_generations"],
    ),
    (
        "subnet-test",
        &[
            "each_range_is_on_the_interface_of_its_subnet",
            "nodes_of_others_and_machines_outside_of_the_vpc",
        ],
    ),
    // --- faults that were seen on the Go controller ----------------------------------------------
    (
        "a lost answer to the creation",
        &["an_answer_that_is_lost_makes_nothing_twice"],
    ),
    (
        "killed between the creation and the status",
        &[
            "killed_at_any_write_of_a_creation_it_leaves_nothing_and_makes_nothing_twice",
            "killed_at_any_write_of_a_creation_it_leaves_nothing_of_a_service_that_is_deleted_then",
        ],
    ),
    (
        "a Node without provider ID",
        &["ns_10_a_node_that_gets_its_provider_id_later_becomes_a_member_then"],
    ),
    (
        "an empty listing",
        &[
            "empty_account_lists_no_linodes",
            "lc_17_a_page_that_is_empty_makes_a_listing_none",
        ],
    ),
    (
        "deleted by hand",
        &[
            "sv_35_a_load_balancer_that_was_deleted_by_hand_comes_back",
            "firewall_of_the_former_nodebalancer_is_taken_over",
        ],
    ),
    (
        "two Services with one nodebalancer-id",
        &[
            "of_two_services_that_name_the_same_one_the_first_keeps_it",
            "an_unmarked_nodebalancer_of_another_service_is_refused",
        ],
    ),
    (
        "firewalls of users",
        &[
            "a_firewall_that_somebody_attached_by_hand_is_never_touched",
            "a_firewall_of_another_service_is_neither_changed_nor_deleted",
        ],
    ),
    (
        "tags with spaces and twice",
        &["tags_with_spaces_and_twice_cost_one_write"],
    ),
    (
        "type LoadBalancer to ClusterIP",
        &["a_service_of_the_go_controller_that_becomes_another_type_leaves_nothing"],
    ),
    (
        "the change-over, there and back",
        &[
            "way_a_and_back_again_writes_nothing_in_the_cloud",
            "way_b_and_back_again_writes_nothing_in_the_cloud_and_leaves_no_trace",
        ],
    ),
    (
        "what would be done, with its impact",
        &["each_change_has_its_steps_and_their_impact"],
    ),
    (
        "a token of another account",
        &["a_token_of_another_account_loses_nothing"],
    ),
    (
        "a restored backup",
        &["a_restored_backup_takes_nothing_away_and_makes_nothing_twice"],
    ),
];

/// The names of all functions in the files of a folder.
fn functions(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            functions(&path, found);
        } else if path.extension().is_some_and(|end| end == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            let names = text.split("fn ").skip(1);
            let names = names.filter_map(|rest| rest.split_once("()"));
            found.extend(names.map(|(name, _)| name.to_owned()));
        }
    }
}

#[test]
fn each_case_of_linodes_go_controller_has_its_tests() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut known = BTreeSet::new();
    for folder in ["central/src", "tests/tests"] {
        functions(&root.join(folder), &mut known);
    }
    let wanted = CASES
        .iter()
        .flat_map(|(case, tests)| tests.iter().map(move |test| (case, test)));
    let missing: Vec<_> = wanted.filter(|(_, test)| !known.contains(**test)).collect();
    assert!(missing.is_empty(), "{missing:#?}");
    assert!(CASES.iter().all(|(_, tests)| !tests.is_empty()));
}
