//! The names of tags that the account knows. One must be known before it can be given to anything;
//! values need not.

use std::collections::BTreeSet;

use reqwest::{Method, StatusCode};
use serde::Deserialize;
use serde_json::json;

use super::Api;
use crate::cloud_api::{CloudError, Request};

/// A name that is known.
#[derive(Clone, Debug, Deserialize)]
pub struct TagName {
    /// The name; capitals count.
    pub name: String,
}

const TAGS: &str = "tag-manager/v1/tags";

impl Api {
    /// All names that the account knows.
    pub async fn tag_names(&self) -> Result<BTreeSet<String>, CloudError> {
        let tags: Vec<TagName> = self.client.fetch(&Request::get("list_tags", TAGS)).await?;
        Ok(tags.into_iter().map(|tag| tag.name).collect())
    }

    /// Whether the account knows this name. Only this one is asked for: all of them would come with
    /// everything that bears them.
    pub async fn knows_tag(&self, name: &str) -> Result<bool, CloudError> {
        let request = Request::get("list_tags", TAGS).query("name", name);
        let tags: Vec<TagName> = self.client.fetch(&request).await?;
        Ok(tags.iter().any(|tag| tag.name == name))
    }

    /// Makes a name known. That it is known already, since another cluster was quicker, is as good.
    pub async fn create_tag(&self, name: &str, description: &str) -> Result<(), CloudError> {
        let request = Request::new("create_tag", Method::POST, TAGS).json(json!({
            "name": name,
            "isBillingTag": false,
            "description": description,
        }));
        match self.client.call(&request).await {
            Err(error) if error.status == Some(StatusCode::CONFLICT.as_u16()) => Ok(()),
            answer => answer,
        }
    }
}
