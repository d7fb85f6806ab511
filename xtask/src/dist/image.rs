//! The OCI image layout, made from nothing: the binary, the roots of certificate authorities, and no shell.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::Release;
use super::archive::{gzip, tar};
use super::binary::Binary;
use super::content::{Content, Entry, output};
use super::digest::hex;

/// The user that the image runs as; it has no rights and no name elsewhere.
pub(super) const USER: &str = "65532:65532";
/// The program, in the image.
pub(super) const PROGRAM: &str = "usr/bin/endstop";
/// The port of `endstop serve`.
const PORT: &str = "8484";
/// Where the roots are, here and in the image.
const ROOTS: &str = "etc/ssl/certs/ca-certificates.crt";

/// Directories of the image. Everybody may write into `tmp`, and its user into its home.
const DIRECTORIES: [(&str, u32); 3] =
    [("proc/", 0o755), ("tmp/", 0o1777), ("var/lib/endstop/", 0o777)];
const GZIPPED_LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// Makes the layout as one tar, which `docker load`, `podman load` and `skopeo copy oci-archive:` read.
pub(super) fn make(
    release: &mut Release,
    binary: &Binary,
    content: &Content,
) -> Result<(), String> {
    let platform = binary.platform;
    if platform.system != "linux" {
        println!("skipped: the image; it has a binary for Linux");
        return Ok(());
    }
    let layer = tar(root_files(binary, content)?, &DIRECTORIES)?;
    let packed = gzip(&layer, release.effort)?;
    let config = config(&release.version, platform.oci, &hex(&layer));
    let entries = layout(&release.version, &config, packed);
    let name = format!("endstop-{}-image-{}.tar", release.version, platform.oci);
    release.put(&name, &tar(entries, &[])?)
}

/// The files of the image.
fn root_files(binary: &Binary, content: &Content) -> Result<Vec<Entry>, String> {
    let mut files = vec![
        Entry::program(PROGRAM, binary.bytes.clone()),
        Entry::file("etc/passwd", "endstop:x:65532:65532::/var/lib/endstop:/usr/bin/endstop\n"),
        Entry::file("etc/group", "endstop:x:65532:\n"),
    ];
    files.extend(content.licenses.iter().map(|it| it.below("usr/share/doc/endstop")));
    match fs::read(Path::new("/").join(ROOTS)) {
        Ok(roots) => files.push(Entry::file(ROOTS, roots)),
        Err(error) => println!("skipped: roots of authorities in the image: `/{ROOTS}`: {error}"),
    }
    for library in libraries(binary)? {
        let bytes =
            fs::read(&library).map_err(|error| format!("`{}`: {error}", library.display()))?;
        let path = library.to_string_lossy().trim_start_matches('/').to_owned();
        files.push(Entry::program(path, bytes));
    }
    Ok(files)
}

/// The libraries of this system that the binary needs, with its loader.
fn libraries(binary: &Binary) -> Result<BTreeSet<PathBuf>, String> {
    if binary.is_static() {
        return Ok(BTreeSet::new());
    }
    println!("the image gets the glibc of this system, because its binary is not static");
    let listed = output(Command::new("ldd").arg(&binary.path))?;
    let listed = String::from_utf8_lossy(&listed).into_owned();
    let words = listed.split_whitespace().filter(|word| word.starts_with('/'));
    Ok(words.map(PathBuf::from).collect())
}

fn config(version: &str, architecture: &str, layer: &str) -> Value {
    json!({
        "architecture": architecture,
        "os": "linux",
        "created": "1980-01-01T00:00:00Z",
        "config": {
            "User": USER,
            "Env": ["PATH=/usr/bin", "HOME=/var/lib/endstop", format!("SSL_CERT_FILE=/{ROOTS}")],
            "Entrypoint": ["/usr/bin/endstop"],
            // Loopback of a container cannot be reached from outside; who runs it chooses what to publish.
            "Cmd": ["serve", "--listen", format!("0.0.0.0:{PORT}")],
            "WorkingDir": "/var/lib/endstop",
            "ExposedPorts": { format!("{PORT}/tcp"): {} },
            "Labels": {
                "org.opencontainers.image.title": "endstop",
                "org.opencontainers.image.version": version,
                "org.opencontainers.image.licenses": "MIT OR Apache-2.0",
                "org.opencontainers.image.source": "https://github.com/endstop-dev/endstop",
            },
        },
        "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{layer}")] },
    })
}

/// The blobs, and what points to them.
fn layout(version: &str, config: &Value, layer: Vec<u8>) -> Vec<Entry> {
    let blob = |bytes: Vec<u8>| Entry::file(format!("blobs/sha256/{}", hex(&bytes)), bytes);
    let points_to = |kind: &str, entry: &Entry| {
        let digest = entry.path.rsplit('/').next().unwrap_or_default();
        json!({ "mediaType": kind, "digest": format!("sha256:{digest}"), "size": entry.bytes.len() })
    };
    let config = blob(config.to_string().into_bytes());
    let layer = blob(layer);
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": points_to(CONFIG, &config),
        "layers": [points_to(GZIPPED_LAYER, &layer)],
    });
    let manifest = blob(manifest.to_string().into_bytes());
    let mut entry_point = points_to(MANIFEST, &manifest);
    if let Some(fields) = entry_point.as_object_mut() {
        fields.insert(
            "annotations".to_owned(),
            json!({ "org.opencontainers.image.ref.name": format!("endstop:{version}") }),
        );
    }
    let index = json!({ "schemaVersion": 2, "manifests": [entry_point] });
    vec![
        Entry::file("oci-layout", "{\"imageLayoutVersion\":\"1.0.0\"}"),
        Entry::file("index.json", index.to_string()),
        config,
        layer,
        manifest,
    ]
}
