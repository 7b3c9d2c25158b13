//! Where do things lie: the repository, the build output, the user's cache?

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

/// Returns the root of the repository that this binary was built from.
pub(crate) fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("xtask lies one level below the root")
}

/// Returns the directory for what is expensive to build and worth keeping between clones.
///
/// `$WEIR_CACHE`, else `weir` in `$XDG_CACHE_HOME`, else `~/.cache/weir`.
///
/// # Errors
/// None of the three can be told from the environment.
pub(crate) fn cache() -> anyhow::Result<PathBuf> {
    cache_from(|name| {
        std::env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    })
}

fn cache_from(variable: impl Fn(&str) -> Option<PathBuf>) -> anyhow::Result<PathBuf> {
    if let Some(cache) = variable("WEIR_CACHE") {
        return std::path::absolute(&cache).with_context(|| format!("bad WEIR_CACHE {cache:?}"));
    }
    if let Some(cache) = variable("XDG_CACHE_HOME") {
        return Ok(cache.join("weir"));
    }
    match variable("HOME") {
        Some(home) => Ok(home.join(".cache/weir")),
        None => bail!("no cache directory: set one of WEIR_CACHE, XDG_CACHE_HOME and HOME"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_specific_variable_names_the_cache() {
        let all = [
            ("WEIR_CACHE", "/w"),
            ("XDG_CACHE_HOME", "/x"),
            ("HOME", "/h"),
        ];
        let rows = [(0, "/w"), (1, "/x/weir"), (2, "/h/.cache/weir")];
        for (skipped, expected) in rows {
            let variable = |name: &str| {
                let (_, value) = all[skipped..].iter().find(|(known, _)| *known == name)?;
                Some(PathBuf::from(value))
            };
            assert_eq!(cache_from(variable).unwrap(), Path::new(expected));
        }
    }

    #[test]
    fn an_empty_environment_has_no_cache() {
        assert!(cache_from(|_| None).is_err());
    }
}
