//! Reading a collection page by page.

use std::collections::HashSet;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::cloud_api::{Client, CloudError, Request};

/// More pages than this are a mistake.
const MOST_PAGES: u32 = 10_000;

/// One entry of a collection.
pub(super) trait Row: DeserializeOwned {
    /// The number that only this entry has. None: entries of this kind have none.
    fn number(&self) -> Option<u64>;
}

#[derive(Deserialize)]
#[serde(bound = "T: DeserializeOwned")]
struct Page<T> {
    data: Vec<T>,
    page: u32,
    pages: u32,
    results: usize,
}

/// All entries.
///
/// There is no snapshot: while one reads, entries come and go, and those behind them move from page
/// to page. Where that shows, the whole is read once more.
///
/// # Errors
/// [`CloudError`] if a page failed, or if the pages do not fit together twice in a row.
pub(super) async fn all<T: Row>(client: &Client, request: &Request) -> Result<Vec<T>, CloudError> {
    let rows = whole(client, request).await;
    client.ended(request, &rows);
    rows
}

async fn whole<T: Row>(client: &Client, request: &Request) -> Result<Vec<T>, CloudError> {
    match read(client, request).await? {
        Ok(rows) => Ok(rows),
        Err(problem) => {
            tracing::debug!(problem, "a collection changed while it was read; once more");
            let again = read(client, request).await?;
            again.map_err(|problem| client.malformed(request, &problem))
        }
    }
}

async fn read<T: Row>(
    client: &Client,
    request: &Request,
) -> Result<Result<Vec<T>, String>, CloudError> {
    let mut rows = Vec::new();
    let mut numbers = HashSet::new();
    let mut promised = None;
    let mut number = 1;
    loop {
        let asked = request.clone().query("page", number.to_string()).page();
        let page: Page<T> = match client.fetch(&asked).await {
            Ok(page) => page,
            Err(error) if error.is_not_found() && number > 1 => {
                return Ok(Err(format!("page {number} is gone")));
            }
            Err(error) => return Err(error),
        };
        let (pages, results) = *promised.get_or_insert((page.pages, page.results));
        if (page.pages, page.results) != (pages, results) {
            return Ok(Err(format!(
                "page {number} speaks of {} entries on {} pages, the first one of {results} on \
                 {pages}",
                page.results, page.pages
            )));
        }
        if page.page != number || pages > MOST_PAGES {
            return Ok(Err(format!(
                "asked for page {number}, got page {} of {pages}",
                page.page
            )));
        }
        for row in page.data {
            if let Some(number) = row.number().filter(|number| !numbers.insert(*number)) {
                return Ok(Err(format!("entry {number} is on two pages")));
            }
            rows.push(row);
        }
        if number >= pages {
            break;
        }
        number += 1;
    }
    match promised {
        Some((_, results)) if results != rows.len() => Ok(Err(format!(
            "{results} entries are promised, {} have come",
            rows.len()
        ))),
        _ => Ok(Ok(rows)),
    }
}
