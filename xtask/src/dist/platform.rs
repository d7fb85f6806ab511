//! Systems and processors, and the names that each channel has for them.

/// A system with a processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Platform {
    /// The system of `uname -s`, in lower case: `linux`, `darwin`.
    pub(super) system: &'static str,
    /// The processor of `uname -m` on Linux: `x86_64`, `aarch64`.
    pub(super) machine: &'static str,
    /// Node's name for the processor.
    pub(super) node: &'static str,
    /// The name for the processor in images.
    pub(super) oci: &'static str,
    /// The tag of wheels for macOS; Linux has one for each glibc.
    pub(super) mac_tag: &'static str,
}

/// Platforms that packages are made for, each on a machine of its kind.
pub(super) const PLATFORMS: [Platform; 4] = [
    Platform { system: "linux", machine: "x86_64", node: "x64", oci: "amd64", mac_tag: "" },
    Platform { system: "linux", machine: "aarch64", node: "arm64", oci: "arm64", mac_tag: "" },
    Platform {
        system: "darwin",
        machine: "x86_64",
        node: "x64",
        oci: "amd64",
        mac_tag: "macosx_10_12_x86_64",
    },
    Platform {
        system: "darwin",
        machine: "aarch64",
        node: "arm64",
        oci: "arm64",
        mac_tag: "macosx_11_0_arm64",
    },
];

impl Platform {
    /// Returns the platform of a program file, from its first bytes; `None` if it is none of them.
    pub(super) fn of(program: &[u8]) -> Option<Self> {
        // ELF has the machine in bytes 18 and 19, Mach-O of 64 bits in bytes 4 to 8; both little-endian.
        let (system, machine) = match program {
            [0x7f, b'E', b'L', b'F', rest @ ..] => match rest.get(14..16)? {
                [62, 0] => ("linux", "x86_64"),
                [183, 0] => ("linux", "aarch64"),
                _ => return None,
            },
            [0xcf, 0xfa, 0xed, 0xfe, 7, 0, 0, 1, ..] => ("darwin", "x86_64"),
            [0xcf, 0xfa, 0xed, 0xfe, 12, 0, 0, 1, ..] => ("darwin", "aarch64"),
            _ => return None,
        };
        PLATFORMS.into_iter().find(|it| it.system == system && it.machine == machine)
    }

    /// Returns the name of the platform's npm package without its scope: `linux-x64`.
    pub(super) fn node_name(&self) -> String {
        format!("{}-{}", self.system, self.node)
    }
}
