//! Is each file short-lined, in small functions, reached by a `mod`, and free of skipped tests?

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;

use super::lexer::{Token, TokenKind, tokens};

/// Two files beside each other fit on a screen of 200 columns.
const COLUMNS_MAX: usize = 100;

/// A function fits on a screen; from its `fn` to its closing brace.
const FUNCTION_LINES_MAX: usize = 70;

/// Words that name a place to put things rather than what the things are.
///
/// "Service" is missing although we avoid it: it is what tower calls the thing.
const BANNED_WORDS: [&str; 7] = [
    "handler", "helper", "helpers", "manager", "managers", "util", "utils",
];

/// Returns one sentence for each breach in the files of one package.
///
/// `roots` are the files that cargo compiles by itself, one per target.
///
/// # Errors
/// A file cannot be read.
pub(super) fn breaches(roots: Vec<PathBuf>, files: &[PathBuf]) -> anyhow::Result<Vec<String>> {
    let mut sources = BTreeMap::new();
    for path in files {
        let source = fs::read_to_string(path)
            .with_context(|| format!("failed to read {}", path.display()))?;
        sources.insert(path.clone(), source);
    }
    let mut breaches = unreached(roots, &sources);
    for (path, source) in &sources {
        let in_file = lines_too_long(source)
            .chain(in_tokens(&tokens(source)))
            .map(|(line, what)| format!("{}:{line}: {what}", path.display()));
        breaches.extend(in_file);
        breaches.extend(banned_file_name(path));
    }
    Ok(breaches)
}

fn lines_too_long(source: &str) -> impl Iterator<Item = (usize, String)> {
    source.lines().enumerate().filter_map(|(index, line)| {
        let columns = line.chars().count();
        (columns > COLUMNS_MAX).then(|| (index + 1, format!("{columns} columns")))
    })
}

fn in_tokens(tokens: &[Token]) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (index, token) in tokens.iter().enumerate() {
        let rest = &tokens[index..];
        if let Some((name, line_count)) = function(rest)
            && line_count > FUNCTION_LINES_MAX
        {
            found.push((
                token.line,
                format!("function {name} has {line_count} lines"),
            ));
        }
        if let Some(name) = type_name(rest)
            && words_of_type(name)
                .iter()
                .any(|word| BANNED_WORDS.contains(&word.as_str()))
        {
            found.push((token.line, format!("type {name} is named after no thing")));
        }
        if is_ignore(rest) {
            found.push((token.line, "a test that is skipped".to_owned()));
        }
    }
    found
}

/// Returns name and length in lines of the function that starts here, if one with a body does.
fn function(tokens: &[Token]) -> Option<(&str, usize)> {
    let [
        first,
        Token {
            kind: TokenKind::Word(name),
            ..
        },
        ..,
    ] = tokens
    else {
        return None;
    };
    if !first.is_word("fn") {
        return None;
    }
    let open = open_brace(tokens)?;
    let close = closing(tokens, open)?;
    Some((name, tokens[close].line - first.line + 1))
}

/// Returns where the body of an item starts, or nothing if it has none.
fn open_brace(tokens: &[Token]) -> Option<usize> {
    let mut depth = 0_usize;
    for (index, token) in tokens.iter().enumerate() {
        match token.kind {
            TokenKind::Mark('(' | '[') => depth += 1,
            TokenKind::Mark(')' | ']') => depth = depth.saturating_sub(1),
            TokenKind::Mark('{') if depth == 0 => return Some(index),
            TokenKind::Mark(';') if depth == 0 => return None,
            _ => {}
        }
    }
    None
}

fn closing(tokens: &[Token], open: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (index, token) in tokens.iter().enumerate().skip(open) {
        if token.is_mark('{') {
            depth += 1;
        } else if token.is_mark('}') {
            depth -= 1;
            if depth == 0 {
                return Some(index);
            }
        }
    }
    None
}

fn type_name(tokens: &[Token]) -> Option<&str> {
    match tokens {
        [
            first,
            Token {
                kind: TokenKind::Word(name),
                ..
            },
            ..,
        ] if ["struct", "enum", "trait"]
            .iter()
            .any(|keyword| first.is_word(keyword)) =>
        {
            Some(name)
        }
        _ => None,
    }
}

/// Splits a name at its capitals: `ScaleSetId` is scale, set and id.
fn words_of_type(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for character in name.chars() {
        match words.last_mut() {
            Some(word) if !character.is_uppercase() => word.push(character),
            _ => words.push(character.to_lowercase().collect()),
        }
    }
    words
}

/// Finds `#[ignore]`, with a reason or without, and `#[cfg_attr(…, ignore)]`.
fn is_ignore(tokens: &[Token]) -> bool {
    let [hash, bracket, attribute, rest @ ..] = tokens else {
        return false;
    };
    if !(hash.is_mark('#') && bracket.is_mark('[')) {
        return false;
    }
    let in_cfg_attr = || {
        rest.iter()
            .take_while(|token| !token.is_mark(']'))
            .any(|token| token.is_word("ignore"))
    };
    attribute.is_word("ignore") || attribute.is_word("cfg_attr") && in_cfg_attr()
}

fn banned_file_name(path: &Path) -> Option<String> {
    let stem = path.file_stem()?.to_str()?;
    let is_banned = stem
        .split(['_', '-'])
        .any(|word| BANNED_WORDS.contains(&word));
    is_banned.then(|| format!("{}: file is named after no thing", path.display()))
}

/// Returns one sentence for each file that no target compiles.
fn unreached(roots: Vec<PathBuf>, sources: &BTreeMap<PathBuf, String>) -> Vec<String> {
    let mut reached = BTreeSet::new();
    // A root has its modules beside it, whatever it is called.
    let mut rest: Vec<(PathBuf, PathBuf)> = roots
        .into_iter()
        .map(|root| (directory(&root), root))
        .collect();
    while let Some((modules_lie_in, path)) = rest.pop() {
        let Some(source) = sources.get(&path) else {
            continue;
        };
        if reached.insert(path.clone()) {
            rest.extend(modules(
                &tokens(source),
                &directory(&path),
                &modules_lie_in,
                sources,
            ));
        }
    }
    sources
        .keys()
        .filter(|path| !reached.contains(*path))
        .map(|path| format!("{}: no `mod` leads to this file", path.display()))
        .collect()
}

/// Returns the files of the modules that a file declares, each with where its own modules lie.
///
/// `beside` is the directory of the file, from which `#[path]` counts at its top level.
fn modules(
    tokens: &[Token],
    beside: &Path,
    modules_lie_in: &Path,
    sources: &BTreeMap<PathBuf, String>,
) -> Vec<(PathBuf, PathBuf)> {
    let mut found = Vec::new();
    let mut index = 0;
    while index < tokens.len() {
        let Some(name) = module_name(&tokens[index..]) else {
            index += 1;
            continue;
        };
        let inside = modules_lie_in.join(name);
        if tokens[index + 2].is_mark('{') {
            let close = closing(tokens, index + 2).unwrap_or(tokens.len());
            found.extend(modules(
                &tokens[index + 3..close],
                &inside,
                &inside,
                sources,
            ));
            index = close;
        } else {
            let choices = match path_attribute(&tokens[..index]) {
                Some(path) => vec![(beside.join(path), directory(&beside.join(path)))],
                None => vec![
                    (modules_lie_in.join(format!("{name}.rs")), inside.clone()),
                    (inside.join("mod.rs"), inside.clone()),
                ],
            };
            let exists = |(path, _): &(PathBuf, PathBuf)| sources.contains_key(path);
            found.extend(
                choices
                    .into_iter()
                    .filter(|choice| exists(choice))
                    .map(swap),
            );
            index += 3;
        }
    }
    found
}

/// Returns the name if `mod name;` or `mod name {` stands here.
fn module_name(tokens: &[Token]) -> Option<&str> {
    match tokens {
        [
            first,
            Token {
                kind: TokenKind::Word(name),
                ..
            },
            next,
            ..,
        ] if first.is_word("mod") && (next.is_mark(';') || next.is_mark('{')) => Some(name),
        _ => None,
    }
}

/// Returns the file that `#[path = "…"]` names, if it is the attribute before these tokens' end.
fn path_attribute(before: &[Token]) -> Option<&str> {
    let before = match before {
        [rest @ .., last] if last.is_word("pub") => rest,
        _ => before,
    };
    match before {
        [
            ..,
            name,
            equals,
            Token {
                kind: TokenKind::Text(path),
                ..
            },
            close,
        ] if name.is_word("path") && equals.is_mark('=') && close.is_mark(']') => Some(path),
        _ => None,
    }
}

fn swap((path, modules_lie_in): (PathBuf, PathBuf)) -> (PathBuf, PathBuf) {
    (modules_lie_in, path)
}

fn directory(path: &Path) -> PathBuf {
    path.parent().map(Path::to_owned).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_counts_from_its_name_to_its_closing_brace() {
        let long_body = "    f();\n".repeat(69);
        let rows = [
            (
                "70 lines",
                format!("fn a() {{\n{}}}", "    f();\n".repeat(68)),
                0,
            ),
            ("71 lines", format!("fn a() {{\n{long_body}}}"), 1),
            (
                "a brace in a string",
                format!("fn a() {{ \"}}\"\n{long_body}}}"),
                1,
            ),
            ("no body", format!("trait T {{ fn a();\n{long_body}}}"), 0),
            ("pointer", format!("struct S {{ a: fn(),\n{long_body}}}"), 0),
            (
                "array type",
                format!("fn a() -> [u8; 2] {{\n{long_body}}}"),
                1,
            ),
            (
                "closure inside",
                format!("fn a() {{ || {{\n{long_body}}}; }}"),
                1,
            ),
        ];
        for (name, source, expected) in rows {
            assert_eq!(in_tokens(&tokens(&source)).len(), expected, "{name}");
        }
    }

    #[test]
    fn a_line_may_have_a_hundred_columns() {
        let source = format!("{}\n{}\n{}", "ä".repeat(100), "x".repeat(101), "x");
        let lines: Vec<usize> = lines_too_long(&source).map(|(line, _)| line).collect();
        assert_eq!(lines, [2]);
    }

    #[test]
    fn a_skipped_test_is_found_in_each_of_its_forms() {
        let rows = [
            ("#[ignore] fn a() {}", 1),
            ("#[ignore = \"slow\"] fn a() {}", 1),
            ("#[cfg_attr(windows, ignore)] fn a() {}", 1),
            ("// #[ignore]\nfn ignore() {}", 0),
            ("#[cfg(test)] mod a { fn ignore() {} }", 0),
        ];
        for (source, expected) in rows {
            assert_eq!(in_tokens(&tokens(source)).len(), expected, "{source}");
        }
    }

    #[test]
    fn a_name_is_judged_by_its_words() {
        let rows = [
            ("struct PoolManager;", 1),
            ("enum ManagerKind {}", 1),
            ("trait Utility {}", 0),
            ("struct Drain { manager: u8 }", 0),
            ("fn handler() {}", 0),
        ];
        for (source, expected) in rows {
            assert_eq!(in_tokens(&tokens(source)).len(), expected, "{source}");
        }
        assert!(banned_file_name(Path::new("src/pool_utils.rs")).is_some());
        assert!(banned_file_name(Path::new("src/utility.rs")).is_none());
    }

    #[test]
    fn a_file_that_no_mod_names_is_found() {
        let sources = BTreeMap::from(
            [
                (
                    "src/lib.rs",
                    "mod a; mod b { mod c; } #[path = \"other.rs\"] pub mod d;",
                ),
                ("src/a.rs", "// mod lost;\nmod e;"),
                ("src/a/e.rs", "mod f;"),
                ("src/a/e/f/mod.rs", "mod g;"),
                ("src/a/e/f/g.rs", ""),
                ("src/b/c.rs", ""),
                ("src/other.rs", ""),
                ("src/d.rs", ""),
                ("src/lost.rs", "mod lost_too;"),
                ("src/lost_too.rs", ""),
                ("tests/whole.rs", "mod common;"),
                ("tests/common/mod.rs", ""),
            ]
            .map(|(path, source)| (PathBuf::from(path), source.to_owned())),
        );
        let found = unreached(vec!["src/lib.rs".into(), "tests/whole.rs".into()], &sources);
        let lost: Vec<&str> = found
            .iter()
            .filter_map(|line| line.split(':').next())
            .collect();
        assert_eq!(lost, ["src/d.rs", "src/lost.rs", "src/lost_too.rs"]);
    }
}
