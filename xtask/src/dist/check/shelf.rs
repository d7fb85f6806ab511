//! The files of a release on loopback, in the forms of a Python index, an npm registry and a page of downloads.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::dist::Release;
use crate::dist::npm::{SCOPE, main_file, main_manifest};
use crate::dist::platform::PLATFORMS;

/// A client that sends nothing is left alone after this time.
const PATIENCE: Duration = Duration::from_secs(10);

/// A server of files; it serves until this process ends.
#[derive(Debug)]
pub(super) struct Shelf {
    port: u16,
}

/// The content type and the content of each path.
type Pages = BTreeMap<String, (&'static str, Vec<u8>)>;

impl Shelf {
    /// Reads the files of the release, and serves them on a free port.
    pub(super) fn open(release: &Release) -> Result<Self, String> {
        let failed = |error: io::Error| format!("cannot serve packages: {error}");
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed)?;
        let port = listener.local_addr().map_err(failed)?.port();
        let shelf = Self { port };
        let pages = Arc::new(shelf.pages(release)?);
        thread::spawn(move || {
            for stream in listener.incoming().filter_map(Result::ok) {
                let pages = Arc::clone(&pages);
                thread::spawn(move || answer(stream, &pages));
            }
        });
        Ok(shelf)
    }

    /// Returns the address of a path.
    pub(super) fn url(&self, path: &str) -> String {
        format!("http://{}:{}/{path}", Ipv4Addr::LOCALHOST, self.port)
    }

    fn pages(&self, release: &Release) -> Result<Pages, String> {
        let mut pages = Pages::new();
        let mut links = String::new();
        for name in &release.files {
            let bytes = fs::read(release.directory.join(name));
            let bytes = bytes.map_err(|error| format!("`{name}`: {error}"))?;
            if name.ends_with(".whl") {
                links.push_str(&format!("<a href=\"{}\">{name}</a>\n", self.url(&files(name))));
            }
            if name.ends_with(".tar.gz") {
                // An archive that was changed on its way.
                let mut changed = bytes.clone();
                changed.push(0);
                pages.insert(format!("/changed/{name}"), ("application/octet-stream", changed));
            }
            if name == crate::dist::digest::SUMS {
                pages.insert(format!("/changed/{name}"), ("text/plain", bytes.clone()));
            }
            if name == crate::dist::archive::INSTALL_SH {
                // As the page of releases has it, by its version and as the newest.
                for page in [format!("download/v{}", release.version), "latest/download".to_owned()]
                {
                    let path = format!("/releases/{page}/{name}");
                    pages.insert(path, ("text/plain", bytes.clone()));
                }
            }
            pages.insert(format!("/{}", files(name)), ("application/octet-stream", bytes));
        }
        pages.insert("/simple/endstop/".to_owned(), ("text/html", links.into_bytes()));
        for (name, manifest) in self.npm(release) {
            let bytes = manifest.to_string().into_bytes();
            pages.insert(format!("/npm/{name}"), ("application/json", bytes));
        }
        Ok(pages)
    }

    /// The registry's documents of the packages in the release.
    fn npm(&self, release: &Release) -> Vec<(String, Value)> {
        let version = &release.version;
        let mut packages = Vec::new();
        let main = main_file(version);
        if release.files.contains(&main) {
            packages.push((
                "endstop".to_owned(),
                self.npm_page(version, &main, main_manifest(version)),
            ));
        }
        for platform in PLATFORMS {
            let file = crate::dist::npm::platform_file(version, platform);
            if release.files.contains(&file) {
                let name = format!("{SCOPE}/{}", platform.node_name());
                let manifest = json!({
                    "name": name, "version": version, "os": [platform.system], "cpu": [platform.node],
                });
                packages.push((name, self.npm_page(version, &file, manifest)));
            }
        }
        packages
    }

    fn npm_page(&self, version: &str, file: &str, mut manifest: Value) -> Value {
        if let Some(fields) = manifest.as_object_mut() {
            fields.insert("dist".to_owned(), json!({ "tarball": self.url(&files(file)) }));
        }
        let name = manifest.get("name").cloned().unwrap_or_default();
        json!({ "name": name, "dist-tags": { "latest": version }, "versions": { version: manifest } })
    }
}

fn files(name: &str) -> String {
    format!("files/{name}")
}

/// Answers one request, and closes the connection. A client may disconnect.
fn answer(stream: TcpStream, pages: &Pages) {
    let _ = stream.set_read_timeout(Some(PATIENCE));
    let _ = respond(stream, pages);
}

fn respond(mut stream: TcpStream, pages: &Pages) -> io::Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    let first = lines.next().transpose()?.unwrap_or_default();
    // The head has to be read, or closing the connection would take the answer with it.
    for line in lines {
        if line?.is_empty() {
            break;
        }
    }
    let mut words = first.split(' ');
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    // npm writes the slash of a scope as an escape.
    let path = path.replace("%2f", "/").replace("%2F", "/");
    let path = path.split('?').next().unwrap_or_default();
    let missing = ("text/plain", Vec::new());
    let (status, (kind, body)) = match pages.get(path) {
        Some(page) => ("200 OK", page),
        None => ("404 Not Found", &missing),
    };
    write!(
        stream,
        "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    )?;
    if method != "HEAD" {
        stream.write_all(body)?;
    }
    stream.flush()
}
