//! Turns the feature of a model checker into the `cfg` that the checked code knows.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    for (checker, is_on) in [("loom", cfg!(feature = "loom")), ("shuttle", cfg!(feature = "shuttle"))] {
        if is_on {
            println!("cargo::rustc-cfg=endstop_{checker}");
        }
    }
}
