//! Tests of `against`.

use super::*;

/// A repository with one file and two commits, which is removed at the end.
struct Repository(PathBuf);

impl Repository {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("endstop-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        git(&path, &["init", "--quiet"]).unwrap();
        let repository = Self(path);
        repository.commit("first");
        repository.commit("second");
        repository
    }

    fn commit(&self, text: &str) {
        fs::write(self.0.join("file"), text).unwrap();
        git(&self.0, &["add", "file"]).unwrap();
        let who = ["-c", "user.name=Test", "-c", "user.email=test@localhost"];
        let commit = ["-c", "commit.gpgsign=false", "commit", "--quiet", "--message", text];
        git(&self.0, &[&who[..], &commit[..]].concat()).unwrap();
    }
}

impl Drop for Repository {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn revisions_are_checked_out_one_after_the_other_and_the_project_stays_as_it_is() {
    let repository = Repository::new("against");
    let root = &repository.0;
    for (revision, text) in [("HEAD~1", "first"), ("HEAD", "second"), ("HEAD~1", "first")] {
        let source = check_out(root, revision).unwrap();
        assert_eq!(fs::read_to_string(source.join("file")).unwrap(), text);
        // A file that a build changed does not stop the next checkout.
        fs::write(source.join("file"), "changed").unwrap();
        assert_eq!(fs::read_to_string(root.join("file")).unwrap(), "second");
    }
}

#[test]
fn a_work_tree_that_was_removed_is_made_again() {
    let repository = Repository::new("against-again");
    let root = &repository.0;
    check_out(root, "HEAD").unwrap();
    fs::remove_dir_all(root.join("target")).unwrap();
    let source = check_out(root, "HEAD~1").unwrap();
    assert_eq!(fs::read_to_string(source.join("file")).unwrap(), "first");
}

#[test]
fn a_revision_that_git_does_not_know_is_named() {
    let repository = Repository::new("against-unknown");
    assert_eq!(check_out(&repository.0, "nowhere").unwrap_err(), "no revision `nowhere`");
}
