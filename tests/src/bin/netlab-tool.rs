//! The rig's helper for processes that must really run in a namespace of the lab.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Ipv6Addr, TcpListener, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};

/// Helper of Mooring's network suites.
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Answers every HTTP request, on all addresses of both families.
    Serve {
        /// The port to listen on.
        #[arg(long)]
        port: u16,
        /// What to answer.
        #[arg(long)]
        body: String,
    },
}

fn main() -> Result<()> {
    let Task::Serve { port, body } = Arguments::parse().command;
    let listener = TcpListener::bind((Ipv6Addr::UNSPECIFIED, port))
        .with_context(|| format!("listening on port {port}"))?;
    let answer: &str = Box::leak(
        format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        )
        .into_boxed_str(),
    );
    for stream in listener.incoming() {
        let stream = stream.context("accepting a connection")?;
        std::thread::spawn(move || respond(stream, answer));
    }
    Ok(())
}

/// Answers one request. A client that goes away is its own business.
fn respond(mut stream: TcpStream, answer: &str) {
    let _ = stream.set_read_timeout(Some(Duration::from_secs(10)));
    let Ok(reader) = stream.try_clone() else {
        return;
    };
    for line in BufReader::new(reader).lines() {
        match line {
            Ok(line) if line.is_empty() => break,
            Ok(_) => {}
            Err(_) => return,
        }
    }
    let _ = stream.write_all(answer.as_bytes());
}
