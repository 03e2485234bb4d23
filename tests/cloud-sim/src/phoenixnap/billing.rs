//! What the use of IP blocks costs.

use axum::extract::State as Shared;
use axum::response::{IntoResponse as _, Response};
use http::{StatusCode, Uri};
use serde_json::{Value, json};

use super::answers::{Refusal, with};
use super::kind::Kind;
use super::state::State;
use super::{Handle, lock};
use crate::request::decoded;

const CATEGORIES: [&str; 5] = [
    "SERVER",
    "BANDWIDTH",
    "OPERATING_SYSTEM",
    "PUBLIC_IP",
    "STORAGE",
];

/// What an hour of a block of this size costs, in US dollars.
#[must_use]
pub fn per_hour(size: &str) -> f64 {
    match size {
        "/28" => 0.03,
        _ => 0.02,
    }
}

/// `GET /rated-usage/month-to-date`: a record for each block that is held, and for each that was given back.
pub(super) async fn month_to_date(Shared(state): Shared<Handle>, uri: Uri) -> Response {
    let query = decoded(uri.query().unwrap_or_default());
    let category = query.iter().find(|(key, _)| key == "productCategory");
    let category = category.map(|(_, category)| category.as_str());
    if category.is_some_and(|category| !CATEGORIES.contains(&category)) {
        return Refusal::field("productCategory is not one of the categories").into_response();
    }
    let state = lock(&state);
    let is_asked = category.is_none_or(|category| category == "PUBLIC_IP");
    let held = state.rows(Kind::Block).iter();
    let held = held.map(|row| record(&state, row.key(), row.value(), true));
    let returned = state.ledger.returned();
    let returned = returned.map(|(id, block)| record(&state, id, block, false));
    let records: Vec<Value> = held.chain(returned).filter(|_| is_asked).collect();
    with(StatusCode::OK, &json!(records))
}

fn record(state: &State, id: &str, block: &Value, active: bool) -> Value {
    let size = block["cidrBlockSize"].as_str().unwrap_or_default();
    let price = per_hour(size);
    json!({
        "id": format!("usage-{id}"), "productCategory": "public-ip", "productCode": "public-subnet-ipv4",
        "location": block["location"], "startDateTime": state.today(), "endDateTime": state.today(),
        "cost": 100.0 * price, "costDescription": format!("1 Hour(s) @ ${price} /Hour"),
        "priceModel": "hourly", "unitPrice": price, "unitPriceDescription": "per hour", "quantity": 1.0,
        "active": active, "usageSessionId": format!("session-{id}"), "correlationId": format!("usage-{id}"),
        "metadata": {"id": id, "cidr": block["cidr"], "size": size},
    })
}
