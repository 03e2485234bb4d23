//! What stands where, at the end.

use std::fmt::{self, Display};

use anyhow::{Result, ensure};
use kube::api::ListParams;
use mooring_cloud_sim::cloud::Cloud;
use mooring_test_cluster::cluster::{addresses, provider_id};
use mooring_test_cluster::test_namespace::ingress;

use super::super::console::{Console, Step};
use super::super::scenario::MOORING;
use super::cluster::{CLOUDS, Clouds};

/// Which cloud serves which Service at last.
const SERVED: [(&str, Cloud); 4] = [
    ("any", Cloud::Cloudscale),
    ("api", Cloud::Cloudscale),
    ("meanwhile", Cloud::Cloudscale),
    ("web", Cloud::Linode),
];

/// Lines of cells, the heads first.
#[derive(Debug)]
struct Table(Vec<Vec<String>>);

/// What there is.
#[derive(Debug)]
pub(super) struct Standing {
    nodes: Table,
    services: Table,
    calls: Table,
}

impl Standing {
    pub(super) async fn of(clouds: &Clouds) -> Result<Self> {
        Ok(Self {
            nodes: nodes(clouds).await?,
            services: services(clouds).await?,
            calls: calls(clouds),
        })
    }

    /// Asserts that the clouds have what is in the table, and no more, and that nothing was refused.
    pub(super) async fn check(&self, console: &Console, clouds: &Clouds) -> Result<()> {
        let step = Step::new("nothing is left over", 30, MOORING);
        console
            .run(step, async {
                for cloud in CLOUDS {
                    let wanted = SERVED.iter().filter(|(_, at)| *at == cloud).count();
                    let found = clouds.balancers(cloud);
                    let name = cloud.name();
                    ensure!(
                        found.len() == wanted,
                        "{wanted} were to be at {name}: {found:?}"
                    );
                }
                let nodes = clouds
                    .nodes()
                    .list(&ListParams::default())
                    .await?
                    .items
                    .len();
                ensure!(nodes == clouds.machines.len(), "there are {nodes} Nodes");
                let refused = clouds
                    .cluster
                    .shipped
                    .forbidden(&clouds.cluster.audit().await);
                ensure!(
                    refused.is_empty(),
                    "the API server refused:\n{}",
                    refused.summary()
                );
                let seen = format!(
                    "{nodes} Nodes, {} load balancers, no request refused",
                    SERVED.len()
                );
                Ok(((), seen))
            })
            .await
    }
}

async fn nodes(clouds: &Clouds) -> Result<Table> {
    let mut rows = vec![heads(&["node", "cloud", "provider ID", "addresses"])];
    for machine in &clouds.machines {
        let node = clouds.nodes().get(&machine.name).await?;
        let id = provider_id(&node).unwrap_or("none").to_owned();
        ensure!(id == machine.id, "{} has the ID {id}", machine.name);
        let own = addresses(&node);
        let own = own.iter().filter_map(|address| address.split_once(' '));
        let own: Vec<_> = own.filter(|(kind, _)| *kind != "Hostname").collect();
        let own = own
            .iter()
            .map(|(_, address)| *address)
            .collect::<Vec<_>>()
            .join(", ");
        rows.push(vec![
            machine.name.clone(),
            machine.cloud.name().to_owned(),
            id,
            own,
        ]);
    }
    Ok(Table(rows))
}

async fn services(clouds: &Clouds) -> Result<Table> {
    let mut rows = vec![heads(&[
        "service",
        "class",
        "load balancer",
        "address",
        "sends to",
    ])];
    for (name, cloud) in SERVED {
        let found = clouds.served_by(name, cloud).await?;
        let service = clouds.services().get(name).await?;
        let class = service
            .spec
            .as_ref()
            .and_then(|spec| spec.load_balancer_class.clone());
        rows.push(vec![
            name.to_owned(),
            class.unwrap_or_else(|| "none".to_owned()),
            format!("{} {}", cloud.name(), found.id),
            ingress(&service).join(", "),
            Vec::from_iter(found.nodes).join(", "),
        ]);
    }
    Ok(Table(rows))
}

fn calls(clouds: &Clouds) -> Table {
    let mut rows = vec![heads(&["cloud", "reads", "writes"])];
    for cloud in CLOUDS {
        let all = clouds.sim(cloud).calls();
        let writes = all.writes().len();
        let reads = all.len() - writes;
        rows.push(vec![
            cloud.name().to_owned(),
            reads.to_string(),
            writes.to_string(),
        ]);
    }
    Table(rows)
}

fn heads(names: &[&str]) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}

impl Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.0.iter().map(Vec::len).max().unwrap_or_default();
        let cells = |column: usize| self.0.iter().filter_map(move |row| row.get(column));
        let width = |column| cells(column).map(String::len).max().unwrap_or_default();
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for row in &self.0 {
            let cells = row.iter().zip(&widths);
            let cells: Vec<String> = cells
                .map(|(cell, width)| format!("{cell:<width$}"))
                .collect();
            writeln!(f, "{}", cells.join("  ").trim_end())?;
        }
        Ok(())
    }
}

impl Display for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n{}\n{}", self.nodes, self.services, self.calls)
    }
}
