//! The rows as tables.

use mooring_common::names::reasons;

use super::{AddressRow, Status, Warned};
use crate::run::inspect::finding::missing;
use crate::run::inspect::print::{Cell, Style, Tone, heading, table};

/// For people.
pub(in crate::run::inspect) fn text(status: &Status, style: Style) -> String {
    let mut text = String::new();
    heading(&mut text, style, "Versions");
    let rows = status.versions.iter().map(|version| {
        let ready = version.ready.map(|[ready, all]| {
            let tone = if ready == all { Tone::Good } else { Tone::Bad };
            Cell::new(format!("{ready}/{all}"), tone)
        });
        vec![
            version.program.as_str().into(),
            version.version.as_str().into(),
            ready.unwrap_or_default(),
        ]
    });
    let rows: Vec<_> = rows.collect();
    text.push_str(&table(style, &["PROGRAM", "VERSION", "READY"], &rows));
    if let Some(leader) = &status.leader {
        heading(&mut text, style, "Leader");
        let tone = if leader.is_current {
            Tone::Good
        } else {
            Tone::Bad
        };
        let holder = leader.holder.as_deref().unwrap_or("nobody");
        let rows = [vec![
            leader.lease.as_str().into(),
            Cell::new(holder, tone),
            leader.renewed.as_deref().unwrap_or_default().into(),
        ]];
        text.push_str(&table(style, &["LEASE", "HOLDER", "RENEWED"], &rows));
    }
    if !status.clouds.is_empty() {
        heading(&mut text, style, "Clouds");
        let rows = status.clouds.iter().map(|cloud| {
            vec![
                cloud.name.as_str().into(),
                cloud.nodes.to_string().into(),
                cloud.services.to_string().into(),
            ]
        });
        let rows: Vec<_> = rows.collect();
        text.push_str(&table(style, &["NAME", "NODES", "SERVICES"], &rows));
    }
    nodes_text(&mut text, status, style);
    services_text(&mut text, status, style);
    networks_text(&mut text, status, style);
    missing(&mut text, style, &status.missing_rights);
    text
}

fn nodes_text(text: &mut String, status: &Status, style: Style) {
    if status.nodes.is_empty() {
        return;
    }
    heading(text, style, "Nodes");
    let mut header = vec![
        "NAME",
        "READY",
        "INITIALIZED",
        "DAEMON",
        "SPEAKS FOR",
        "NOTICES",
    ];
    if style.wide {
        header.extend(["PROVIDER ID", "ADDRESSES"]);
    }
    header.push("LAST WARNING");
    let rows = status.nodes.iter().map(|node| {
        let mut row = vec![
            node.name.as_str().into(),
            yes(node.ready),
            yes(node.initialized),
            node.daemon.map(yes).unwrap_or_default(),
            node.speaks_for.to_string().into(),
            Cell::new(node.notices.join(","), Tone::Warning),
        ];
        if style.wide {
            row.push(node.provider_id.as_deref().unwrap_or_default().into());
            row.push(node.addresses.join(",").into());
        }
        row.push(warning_cell(node.last_warning.as_ref(), style));
        row
    });
    let rows: Vec<_> = rows.collect();
    text.push_str(&table(style, &header, &rows));
}

fn services_text(text: &mut String, status: &Status, style: Style) {
    if status.services.is_empty() {
        return;
    }
    heading(text, style, "Services");
    let mut header = vec!["NAME", "SERVED BY", "ADDRESS", "SPEAKER", "SINCE"];
    if style.wide {
        header.extend(["NETWORK", "REASON", "PORTS"]);
    }
    header.push("LAST WARNING");
    let mut rows = Vec::new();
    for service in &status.services {
        let served_by = match service.served_by.as_str() {
            "" => Cell::from("another"),
            name => name.into(),
        };
        let none = [None];
        let all: Vec<Option<&AddressRow>> = service.addresses.iter().map(Some).collect();
        let shown: &[Option<&AddressRow>] = if all.is_empty() { &none } else { &all };
        for (index, address) in shown.iter().enumerate() {
            let is_first = index == 0;
            let of = |text: Option<&String>| Cell::from(text.cloned().unwrap_or_default());
            let mut row = vec![
                if is_first {
                    service.name.as_str().into()
                } else {
                    Cell::from(" ")
                },
                if is_first {
                    served_by.clone()
                } else {
                    Cell::from(" ")
                },
                match address {
                    Some(address) => Cell::new(address.address.as_str(), Tone::Good),
                    None => Cell::new("none", Tone::Bad),
                },
                of(address.and_then(|one| one.speaker.as_ref())),
                of(address.map(|one| &one.age)),
            ];
            if style.wide {
                row.push(of(address.and_then(|one| one.network.as_ref())));
                row.push(of(address.and_then(|one| one.reason.as_ref())));
                row.push(service.ports.join(",").into());
            }
            let warning = service.last_warning.as_ref().filter(|_| is_first);
            row.push(warning_cell(warning, style));
            rows.push(row);
        }
    }
    text.push_str(&table(style, &header, &rows));
}

fn networks_text(text: &mut String, status: &Status, style: Style) {
    if status.networks.is_empty() {
        return;
    }
    heading(text, style, "L2Networks");
    let header = [
        "NAME",
        "READY",
        "QUORUM",
        "SIGNED",
        "VOTERS",
        "USED",
        "FREE IPV4",
        "FREE IPV6",
        "LAST WARNING",
    ];
    let rows = status.networks.iter().map(|network| {
        let of = |text: &Option<String>, good: &[&str]| {
            let text = text.clone().unwrap_or_default();
            let tone = if good.contains(&text.as_str()) {
                Tone::Good
            } else {
                Tone::Bad
            };
            Cell::new(text, tone)
        };
        let count = |count: Option<i64>| count.map(|n| n.to_string()).unwrap_or_default();
        vec![
            network.name.as_str().into(),
            of(&network.ready, &[reasons::READY]),
            of(
                &network.quorum,
                &[reasons::QUORUM_HELD, reasons::TWO_VOTERS, "OneVoter"],
            ),
            of(&network.signed, &["True"]),
            network.voters.join(",").into(),
            network.used.to_string().into(),
            count(network.free_ipv4).into(),
            count(network.free_ipv6).into(),
            warning_cell(network.last_warning.as_ref(), style),
        ]
    });
    let rows: Vec<_> = rows.collect();
    text.push_str(&table(style, &header, &rows));
}

fn yes(is: bool) -> Cell {
    match is {
        true => Cell::new("yes", Tone::Good),
        false => Cell::new("no", Tone::Bad),
    }
}

/// How much of a note a narrow table shows.
const SHORT_NOTE: usize = 60;

fn warning_cell(warned: Option<&Warned>, style: Style) -> Cell {
    let Some(Warned {
        reason, note, age, ..
    }) = warned
    else {
        return Cell::default();
    };
    let note: String = match style.wide || note.chars().count() <= SHORT_NOTE {
        true => note.clone(),
        false => note.chars().take(SHORT_NOTE).chain(['…']).collect(),
    };
    Cell::new(format!("{reason} {age} ago: {note}"), Tone::Warning)
}
