//! Reading a collection page by page: `{"data": […], "page": 1, "pages": 3, "results": 250}`.

use std::collections::HashSet;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{Client, Request};
use crate::cloud_api::CloudError;

/// More pages than this are a mistake.
const MOST_PAGES: u32 = 10_000;

#[derive(Deserialize)]
struct Page {
    data: Vec<Value>,
    page: u32,
    pages: u32,
    results: usize,
}

impl Client {
    /// All entries of a collection. No two have the same `id`, or, where they have none, are the same.
    ///
    /// There is no snapshot: while one reads, entries come and go, and those behind them move from page
    /// to page. Where that shows, the whole is read once more.
    ///
    /// # Errors
    /// [`CloudError`] if a page failed, or if the pages do not fit together twice in a row.
    pub async fn all_pages<T: DeserializeOwned>(
        &self,
        request: &Request,
    ) -> Result<Vec<T>, CloudError> {
        let rows = self.whole(request).await;
        self.ended(request, &rows);
        rows
    }

    async fn whole<T: DeserializeOwned>(&self, request: &Request) -> Result<Vec<T>, CloudError> {
        let rows = match self.read_pages(request).await? {
            Ok(rows) => rows,
            Err(problem) => {
                tracing::debug!(problem, "a collection changed while it was read; once more");
                let again = self.read_pages(request).await?;
                again.map_err(|problem| self.malformed(request, &problem))?
            }
        };
        let rows = rows.into_iter().map(serde_json::from_value);
        let rows: Result<Vec<T>, _> = rows.collect();
        rows.map_err(|error| {
            self.malformed(request, &format!("the answer cannot be read: {error}"))
        })
    }

    async fn read_pages(
        &self,
        request: &Request,
    ) -> Result<Result<Vec<Value>, String>, CloudError> {
        let mut rows = Vec::new();
        let mut seen = HashSet::new();
        let mut promised = None;
        let mut number = 1;
        loop {
            let asked = request.clone().query("page", number.to_string()).page();
            let page: Page = match self.fetch(&asked).await {
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
                let entry = row
                    .get("id")
                    .filter(|id| !id.is_null())
                    .unwrap_or(&row)
                    .to_string();
                if seen.contains(&entry) {
                    return Ok(Err(format!("entry {entry} is on two pages")));
                }
                seen.insert(entry);
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
}
