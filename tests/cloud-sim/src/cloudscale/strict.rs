//! What the API takes in a request and what it refuses: fields, one by one.

use std::net::IpAddr;

use serde_json::{Map, Value};

use super::answers::Refusal;
use super::kind::Kind;

const REQUIRED: &str = "This field is required.";
const UNKNOWN: &str = "This field does not exist or cannot be written.";
const CONSTANT: &str = "This field cannot be changed.";

/// What a field holds.
#[derive(Clone, Copy)]
enum Is {
    Text,
    Uuid,
    Address,
    Port,
    Number,
    Flag,
    OneOf(&'static [&'static str]),
    Cidrs,
    Vips,
    Http,
    Tags,
}

/// When a field can be written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Written {
    /// It must be there at first, and stays as it is.
    Once,
    /// It can be there at first, and stays as it is.
    AtFirst,
    /// It must be there at first, and can be changed.
    Always,
    /// It can be there, at first and later.
    AtWill,
    /// It cannot be there at first.
    Later,
}

struct Field(&'static str, Is, Written);

const ALGORITHMS: Is = Is::OneOf(&["round_robin", "least_connections", "source_ip"]);
const METHODS: &[&str] = &[
    "CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE",
];
const MONITORS: Is = Is::OneOf(&["ping", "tcp", "http", "https", "tls-hello", "udp-connect"]);
const POOL_PROTOCOLS: Is = Is::OneOf(&["tcp", "udp", "proxy", "proxyv2"]);
const PROTOCOLS: Is = Is::OneOf(&["tcp", "udp"]);
const TAGS: Field = Field("tags", Is::Tags, Written::AtWill);

const LOAD_BALANCER: &[Field] = &[
    Field("name", Is::Text, Written::Always),
    Field("flavor", Is::OneOf(&["lb-standard"]), Written::Once),
    Field("zone", Is::OneOf(&["rma1", "lpg1"]), Written::AtFirst),
    Field("vip_addresses", Is::Vips, Written::AtFirst),
    TAGS,
];
const POOL: &[Field] = &[
    Field("name", Is::Text, Written::Always),
    Field("load_balancer", Is::Uuid, Written::Once),
    Field("algorithm", ALGORITHMS, Written::Once),
    Field("protocol", POOL_PROTOCOLS, Written::Once),
    TAGS,
];
const MEMBER: &[Field] = &[
    Field("name", Is::Text, Written::Always),
    Field("enabled", Is::Flag, Written::AtWill),
    Field("protocol_port", Is::Port, Written::Once),
    Field("monitor_port", Is::Port, Written::AtFirst),
    Field("address", Is::Address, Written::Once),
    Field("subnet", Is::Uuid, Written::Once),
    TAGS,
];
const LISTENER: &[Field] = &[
    Field("name", Is::Text, Written::Always),
    Field("pool", Is::Uuid, Written::Once),
    Field("protocol", PROTOCOLS, Written::Once),
    Field("protocol_port", Is::Port, Written::Once),
    Field("allowed_cidrs", Is::Cidrs, Written::AtWill),
    Field("timeout_client_data_ms", Is::Number, Written::AtWill),
    Field("timeout_member_connect_ms", Is::Number, Written::AtWill),
    Field("timeout_member_data_ms", Is::Number, Written::AtWill),
    TAGS,
];
const HEALTH_MONITOR: &[Field] = &[
    Field("pool", Is::Uuid, Written::Once),
    Field("type", MONITORS, Written::Once),
    Field("delay_s", Is::Number, Written::AtWill),
    Field("timeout_s", Is::Number, Written::AtWill),
    Field("up_threshold", Is::Number, Written::AtWill),
    Field("down_threshold", Is::Number, Written::AtWill),
    Field("http", Is::Http, Written::AtWill),
    TAGS,
];
const FLOATING_IP: &[Field] = &[
    Field("load_balancer", Is::Uuid, Written::Later),
    Field("server", Is::Uuid, Written::Later),
    TAGS,
];

const fn fields(kind: Kind) -> &'static [Field] {
    match kind {
        Kind::Server => &[],
        Kind::LoadBalancer => LOAD_BALANCER,
        Kind::Pool => POOL,
        Kind::Member => MEMBER,
        Kind::Listener => LISTENER,
        Kind::HealthMonitor => HEALTH_MONITOR,
        Kind::FloatingIp => FLOATING_IP,
    }
}

/// Whether an object can be made of this.
pub(super) fn new(kind: Kind, body: &Map<String, Value>) -> Result<(), Refusal> {
    for Field(name, _, written) in fields(kind) {
        let required = matches!(written, Written::Once | Written::Always);
        if required && !body.contains_key(*name) {
            return Err(Refusal::field(name, REQUIRED));
        }
    }
    for (name, value) in body {
        let field = fields(kind).iter().find(|field| field.0 == name);
        let Some(Field(_, is, _)) = field else {
            return Err(Refusal::field(name, UNKNOWN));
        };
        check(name, *is, value)?;
    }
    Ok(())
}

/// Whether an object can be changed by this: one field, and one that can be changed.
pub(super) fn change(kind: Kind, body: &Map<String, Value>) -> Result<(), Refusal> {
    if body.len() > 1 {
        return Err(Refusal::detail(
            "To keep changes atomic, only one attribute can be changed per request.",
        ));
    }
    for (name, value) in body {
        match fields(kind).iter().find(|field| field.0 == name) {
            None => return Err(Refusal::field(name, UNKNOWN)),
            Some(Field(_, _, Written::Once | Written::AtFirst)) => {
                return Err(Refusal::field(name, CONSTANT));
            }
            Some(Field(_, Is::Http, _)) if value.get("version").is_some() => {
                return Err(Refusal::field("version", CONSTANT));
            }
            Some(Field(_, is, _)) => check(name, *is, value)?,
        }
    }
    Ok(())
}

fn check(name: &str, is: Is, value: &Value) -> Result<(), Refusal> {
    let wanted = match is {
        // What is not there is not wrong: a monitor port is that of the protocol then.
        Is::Port if name == "monitor_port" && value.is_null() => return Ok(()),
        Is::Http => return http(value),
        Is::Text if value.as_str().is_some_and(|text| !text.is_empty()) => return Ok(()),
        Is::Text => "This field may not be blank.".to_owned(),
        Is::Uuid if value.as_str().is_some_and(is_uuid) => return Ok(()),
        Is::Uuid => "Must be a valid UUID.".to_owned(),
        Is::Address if value.as_str().is_some_and(is_address) => return Ok(()),
        Is::Address => "Enter a valid IPv4 or IPv6 address.".to_owned(),
        Is::Port if value.as_u64().is_some_and(|p| (1..=65_535).contains(&p)) => return Ok(()),
        Is::Port => "Ensure this value is from 1 to 65535.".to_owned(),
        Is::Number if value.as_u64().is_some_and(|number| number >= 1) => return Ok(()),
        Is::Number => "Ensure this value is greater than or equal to 1.".to_owned(),
        Is::Flag if value.is_boolean() => return Ok(()),
        Is::Flag => "Must be a valid boolean.".to_owned(),
        Is::OneOf(all) if value.as_str().is_some_and(|text| all.contains(&text)) => return Ok(()),
        Is::OneOf(all) => format!("{value} is not a valid choice: {}.", all.join(", ")),
        Is::Cidrs if list(value, is_cidr) => return Ok(()),
        Is::Cidrs => "Enter valid networks in CIDR notation.".to_owned(),
        Is::Vips if vips(value) => return Ok(()),
        Is::Vips => "Enter a list of objects with a subnet, an address or both.".to_owned(),
        Is::Tags if tags(value) => return Ok(()),
        Is::Tags => "Tags must be an object of strings.".to_owned(),
    };
    Err(Refusal::field(name, &wanted))
}

/// The options of a monitor that speaks HTTP.
fn http(value: &Value) -> Result<(), Refusal> {
    let Some(options) = value.as_object() else {
        return Err(Refusal::field("http", "Must be an object."));
    };
    for (name, value) in options {
        match name.as_str() {
            "method" => check(name, Is::OneOf(METHODS), value)?,
            "version" => check(name, Is::OneOf(&["1.0", "1.1"]), value)?,
            "host" if value.is_null() => {}
            "host" => check(name, Is::Text, value)?,
            "url_path" if value.as_str().is_some_and(|path| path.starts_with('/')) => {}
            "url_path" => return Err(Refusal::field(name, "The path must start with a slash.")),
            "expected_codes" if list(value, is_codes) && value != &Value::Array(Vec::new()) => {}
            "expected_codes" => return Err(Refusal::field(name, "Enter valid status codes.")),
            _ => return Err(Refusal::field(name, UNKNOWN)),
        }
    }
    Ok(())
}

fn list(value: &Value, item: impl Fn(&str) -> bool) -> bool {
    let items = value.as_array();
    items.is_some_and(|items| items.iter().all(|value| value.as_str().is_some_and(&item)))
}

fn vips(value: &Value) -> bool {
    let is_vip = |vip: &Map<String, Value>| {
        !vip.is_empty()
            && vip.iter().all(|(name, value)| match name.as_str() {
                "subnet" => value.as_str().is_some_and(is_uuid),
                "address" => value.as_str().is_some_and(is_address),
                _ => false,
            })
    };
    let vips = value.as_array();
    vips.is_some_and(|vips| vips.iter().all(|vip| vip.as_object().is_some_and(is_vip)))
}

fn tags(value: &Value) -> bool {
    let tags = value.as_object();
    tags.is_some_and(|tags| tags.values().all(Value::is_string))
}

fn is_uuid(text: &str) -> bool {
    uuid::Uuid::try_parse(text).is_ok()
}

fn is_address(text: &str) -> bool {
    text.parse::<IpAddr>().is_ok()
}

fn is_cidr(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else {
        return false;
    };
    let longest = match address.parse() {
        Ok(IpAddr::V4(_)) => 32,
        Ok(IpAddr::V6(_)) => 128,
        Err(_) => return false,
    };
    length.parse::<u8>().is_ok_and(|length| length <= longest)
}

/// A code, or a range of codes.
fn is_codes(text: &str) -> bool {
    let is_code = |code: &str| {
        code.parse()
            .is_ok_and(|code: u16| (100..600).contains(&code))
    };
    text.split('-').all(is_code) && text.split('-').count() <= 2
}
