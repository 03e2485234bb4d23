//! A person writes the ID of the load balancer that the Service is to have; which one it has is told by its
//! status alone, until that bears its mark.

use super::*;

const PERSON: &Vocabulary = &Vocabulary {
    id_key: "example.com/balancer-id",
    id_by: IdBy::Person,
    name_key: None,
    name_prefix: None,
    ..BY_CENTRAL
};

/// One of this number, whose address ends so too.
fn numbered(number: u8, owner: Option<&str>) -> Balancer {
    Balancer {
        address: std::net::IpAddr::from([203, 0, 113, number]),
        ..balancer(&number.to_string(), &format!("ccm-{number}"), owner)
    }
}

/// A Service that wishes for this one, and whose status shows the one of that number.
fn wishing(uid: &str, age: &str, wish: Option<&str>, has: Option<u8>) -> Claim {
    let ingress = has.map(|number| json!({"ip": format!("203.0.113.{number}")}));
    let ingress: Vec<Value> = ingress.into_iter().collect();
    claim_in(PERSON, uid, age, [None, wish], &json!(ingress))
}

/// With the surplus by ID.
fn shown(selection: &Selection<'_, Balancer>) -> String {
    let (word, balancer, surplus) = match selection {
        Selection::Nothing => return "nothing".to_owned(),
        Selection::Refused(_) => return "refused".to_owned(),
        Selection::Own { balancer, surplus } => ("own", balancer, surplus),
        Selection::Adopted { balancer, surplus } => ("adopted", balancer, surplus),
        Selection::Unproven {
            balancer,
            surplus,
            rival,
        } => match rival {
            None => ("unproven", balancer, surplus),
            Some(_) => ("contested", balancer, surplus),
        },
    };
    let surplus: Vec<&str> = surplus.iter().map(|other| &*other.id).collect();
    format!("{word} {} +{}", balancer.id, surplus.join(","))
}

/// Each row: the owners of load balancers 1, 2 and 3, the wish, which one the status shows, what is selected.
#[test]
fn wish_wins_over_mark_and_status() {
    let (own, other) = (Some(OWN), Some(OTHER));
    for (owners, wish, has, expected) in [
        // Nothing is wished for.
        ([None; 3], None, None, "nothing"),
        ([None; 3], None, Some(2), "adopted 2 +"),
        ([None; 3], None, Some(9), "nothing"),
        ([None, own, None], None, Some(2), "own 2 +"),
        ([None, own, None], None, None, "own 2 +"),
        ([None, own, None], None, Some(1), "own 2 +"),
        ([own, own, None], None, Some(2), "own 2 +1"),
        ([None, other, None], None, Some(2), "refused"),
        // Something is.
        ([None; 3], Some("1"), None, "unproven 1 +"),
        ([None; 3], Some("1"), Some(1), "adopted 1 +"),
        ([own, None, None], Some("1"), None, "own 1 +"),
        ([None; 3], Some("1"), Some(2), "unproven 1 +2"),
        ([None, own, None], Some("1"), Some(2), "unproven 1 +2"),
        ([None, own, own], Some("1"), Some(2), "unproven 1 +2,3"),
        ([own, own, None], Some("1"), Some(2), "own 1 +2"),
        ([own, None, None], Some("1"), Some(2), "own 1 +2"),
        // What another Service has is neither given nor taken away.
        ([other, None, None], Some("1"), None, "refused"),
        ([other, own, None], Some("1"), Some(2), "refused"),
        ([None, other, None], Some("1"), Some(2), "unproven 1 +"),
        // It is not there: whoever asks looks for it, and refuses.
        ([None, own, None], Some("7"), Some(2), "own 2 +"),
        ([None; 3], Some("7"), None, "nothing"),
        ([own, None, None], Some(" 1 "), None, "own 1 +"),
    ] {
        let all: Vec<_> = (1..)
            .zip(owners)
            .map(|(number, owner)| numbered(number, owner))
            .collect();
        let claim = wishing(OWN, "02", wish, has);
        assert_eq!(
            shown(&select(&all, &claim, &[])),
            expected,
            "{owners:?} {wish:?} {has:?}"
        );
    }
}

/// One without a mark that another Service has by its status, or asks for and is older.
#[test]
fn better_right_of_another_service_is_respected() {
    let all = [numbered(1, None)];
    for (own, other, expected) in [
        (("02", Some("1"), None), ("03", None, Some(1)), "refused"),
        (
            ("02", Some("1"), Some(1)),
            ("03", None, Some(1)),
            "unproven 1 +",
        ),
        (
            ("02", Some("1"), Some(1)),
            ("01", None, Some(1)),
            "contested 1 +",
        ),
        (
            ("02", Some("1"), None),
            ("01", Some("1"), None),
            "contested 1 +",
        ),
        (
            ("02", Some("1"), None),
            ("03", Some("1"), None),
            "unproven 1 +",
        ),
        (
            ("02", None, Some(1)),
            ("01", Some("1"), None),
            "adopted 1 +",
        ),
    ] {
        let claim = |uid, (age, wish, has)| wishing(uid, age, wish, has);
        let others = [claim(OTHER, other)];
        let own = claim(OWN, own);
        assert_eq!(shown(&select(&all, &own, &others)), expected, "{own:?}");
    }
}

#[test]
fn one_of_several_by_status_is_for_a_person_to_name() {
    let mut all = [numbered(1, None), numbered(2, None)];
    all[1].address = all[0].address;
    let Selection::Refused(why) = select(&all, &wishing(OWN, "02", None, Some(1)), &[]) else {
        panic!();
    };
    for part in [
        "ccm-1 (1), ccm-2 (2)",
        "name one of them in the annotation example.com/balancer-id",
    ] {
        assert!(why.contains(part), "{why}");
    }
    assert_eq!(
        shown(&select(&all, &wishing(OWN, "02", Some("2"), Some(1)), &[])),
        "adopted 2 +",
        "the status shows the one that is wished for"
    );
}

#[test]
fn refusals_say_what_to_do() {
    let all = [numbered(1, Some(OTHER))];
    let claim = wishing(OWN, "02", Some("1"), None);
    let Selection::Refused(why) = select(&all, &claim, &[wishing(OTHER, "01", None, None)]) else {
        panic!();
    };
    let take_off = "take the annotation example.com/balancer-id off";
    for part in ["ccm-1 (1) belongs to the Service ns/of-", OTHER, take_off] {
        assert!(why.contains(part), "{part}: {why}");
    }
    let why = missing("7", &claim);
    for part in [
        "LoadBalancer (7) not found for service (ns/of-",
        take_off.split_once(' ').unwrap().0,
        "correct",
    ] {
        assert!(why.contains(part), "{part}: {why}");
    }
    let why = unproven(&numbered(1, None), &claim);
    for part in ["example.com/balancer-id asks for", "ccm-1 (1)", take_off] {
        assert!(why.contains(part), "{part}: {why}");
    }
}

#[test]
fn only_what_was_the_services_may_go() {
    let cluster = Some("c");
    let of_cluster = |balancer: Balancer, cluster: &str| Balancer {
        cluster: Some(cluster.to_owned()),
        ..balancer
    };
    // Each row: a load balancer, whether it may be deleted by what is shown, and by what this process knows.
    for (there, may_delete, had) in [
        (numbered(1, None), true, true),
        (numbered(2, None), false, true),
        (numbered(2, Some(OWN)), true, false),
        (numbered(1, Some(OTHER)), false, false),
        (of_cluster(numbered(2, Some(OWN)), "c"), true, false),
        (of_cluster(numbered(2, Some(OWN)), "d"), false, false),
        (of_cluster(numbered(1, None), "d"), false, false),
    ] {
        let claim = wishing(OWN, "02", Some("2"), Some(1));
        assert_eq!(claim.may_delete(&there, cluster), may_delete, "{there:?}");
        assert_eq!(claim.had(&there, cluster), had, "{there:?}");
    }
    // Where central writes the ID, what it knows is written there.
    let central = claim(OWN, "02", None, Some("2"), None);
    assert!(!central.had(&numbered(2, None), cluster));
}
