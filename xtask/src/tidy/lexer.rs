//! What are the words of a Rust file, without its comments and the insides of its strings?
//!
//! Just enough of the language to find items and their braces: a rule that greps would stumble over
//! a brace in a string or a `mod` in a comment.

/// A word of the source and the line that it starts on, counted from one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) line: usize,
    pub(super) kind: TokenKind,
}

/// What a token is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TokenKind {
    /// An identifier or a keyword, without `r#`.
    Word(String),
    /// The inside of a string literal, escapes left as written.
    Text(String),
    /// Any other character, one at a time.
    Mark(char),
}

impl Token {
    /// Says whether this is the given identifier or keyword.
    pub(super) fn is_word(&self, expected: &str) -> bool {
        matches!(&self.kind, TokenKind::Word(word) if word == expected)
    }

    /// Says whether this is the given punctuation.
    pub(super) fn is_mark(&self, expected: char) -> bool {
        self.kind == TokenKind::Mark(expected)
    }
}

/// Splits a source into its tokens; numbers and character literals are left out.
///
/// Total: whatever is not Rust comes out as marks and words.
pub(super) fn tokens(source: &str) -> Vec<Token> {
    let mut lexer = Lexer {
        rest: source,
        line: 1,
    };
    let mut tokens = Vec::new();
    while !lexer.rest.is_empty() {
        let line = lexer.line;
        if let Some(kind) = lexer.next() {
            tokens.push(Token { line, kind });
        }
    }
    tokens
}

struct Lexer<'a> {
    rest: &'a str,
    line: usize,
}

impl<'a> Lexer<'a> {
    /// Consumes at least one character of a rest that is not empty.
    fn next(&mut self) -> Option<TokenKind> {
        if self.rest.starts_with("//") {
            let length = self.rest.find('\n').unwrap_or(self.rest.len());
            self.take(length);
            return None;
        }
        if self.rest.starts_with("/*") {
            self.block_comment();
            return None;
        }
        if let Some(text) = self.string() {
            return Some(TokenKind::Text(text));
        }
        let first = self.rest.chars().next()?;
        if first == '\'' {
            self.quote();
            return None;
        }
        if is_word_start(first) {
            let word = self.word();
            // `r#type` is the word `type`; a raw string has been dealt with above.
            if word == "r" && self.rest.starts_with('#') {
                self.take(1);
                return Some(TokenKind::Word(self.word().to_owned()));
            }
            return Some(TokenKind::Word(word.to_owned()));
        }
        if first.is_ascii_digit() {
            self.word();
            return None;
        }
        self.take(first.len_utf8());
        (!first.is_whitespace()).then_some(TokenKind::Mark(first))
    }

    fn take(&mut self, length: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(length);
        self.line += taken.matches('\n').count();
        self.rest = rest;
        taken
    }

    fn word(&mut self) -> &'a str {
        let end = |c: char| !(is_word_start(c) || c.is_ascii_digit());
        let length = self.rest.find(end).unwrap_or(self.rest.len());
        self.take(length)
    }

    /// Block comments nest.
    fn block_comment(&mut self) {
        let mut depth = 0_usize;
        while !self.rest.is_empty() {
            if self.rest.starts_with("/*") {
                depth += 1;
                self.take(2);
            } else if self.rest.starts_with("*/") {
                depth -= 1;
                self.take(2);
                if depth == 0 {
                    return;
                }
            } else {
                self.take_character();
            }
        }
    }

    fn take_character(&mut self) {
        let length = self.rest.chars().next().map_or(0, char::len_utf8);
        self.take(length);
    }

    /// Takes a string literal of any kind, if one starts here.
    fn string(&mut self) -> Option<String> {
        let prefix_length = self.rest.find(|c: char| !"bcr".contains(c))?;
        let (prefix, after) = self.rest.split_at(prefix_length);
        let hashes = after.len() - after.trim_start_matches('#').len();
        let is_raw = prefix.ends_with('r');
        let is_string = prefix.len() <= 2
            && after[hashes..].starts_with('"')
            && (is_raw || hashes == 0 && prefix.len() <= 1);
        if !is_string {
            return None;
        }
        self.take(prefix_length + hashes + 1);
        let end = if is_raw {
            let fence = format!("\"{}", "#".repeat(hashes));
            self.rest.find(&fence).unwrap_or(self.rest.len())
        } else {
            end_of_escaped(self.rest, '"')
        };
        let text = self.take(end).to_owned();
        self.take(self.rest.len().min(1 + hashes));
        Some(text)
    }

    /// Takes a character literal, or the quote of a lifetime.
    fn quote(&mut self) {
        self.take(1);
        let mut characters = self.rest.chars();
        let is_literal = match (characters.next(), characters.next()) {
            (Some('\\'), _) => true,
            (Some(_), second) => second == Some('\''),
            (None, _) => false,
        };
        if is_literal {
            // The first character may itself be an escaped quote.
            let end = end_of_escaped(self.rest, '\'').max(1);
            self.take(end);
            self.take(self.rest.len().min(1));
        }
    }
}

/// Returns where the first `end` without a backslash before it lies, or the length.
fn end_of_escaped(text: &str, end: char) -> usize {
    let mut is_escaped = false;
    for (index, character) in text.char_indices() {
        if is_escaped {
            is_escaped = false;
        } else if character == '\\' {
            is_escaped = true;
        } else if character == end {
            return index;
        }
    }
    text.len()
}

fn is_word_start(character: char) -> bool {
    character == '_' || character.is_alphabetic()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_strings_and_characters_hide_what_is_in_them() {
        let rows = [
            ("line comment", "a // b {\nc", "a c"),
            ("block comment", "a /* b /* c */ d */ e", "a e"),
            ("string", r#"a "b { \" c" d"#, r#"a "b { \" c" d"#),
            ("raw string", r###"a r#"b " c"# d"###, r#"a "b " c" d"#),
            ("byte string", r#"b"x" br"y" c"#, r#""x" "y" c"#),
            ("brace character", "a '{' b", "a b"),
            ("escaped characters", r"a '\'' '\\' '\u{7f}' b", "a b"),
            ("quote as character", "a '\"' b", "a b"),
            ("lifetime", "&'a str", "& a str"),
            ("raw identifier", "r#type b", "type b"),
            ("numbers", "1_000u32 0x7b b", "b"),
            ("words that start like strings", "bc rest r", "bc rest r"),
        ];
        for (name, source, expected) in rows {
            let shown: Vec<String> = tokens(source)
                .iter()
                .map(|token| show(&token.kind))
                .collect();
            assert_eq!(shown.join(" "), expected, "{name}");
        }
    }

    #[test]
    fn lines_are_counted_through_strings_and_comments() {
        let source = "a /* \n */ \"\n\" // \n b '\n' c";
        let lines: Vec<usize> = tokens(source).iter().map(|token| token.line).collect();
        assert_eq!(lines, [1, 2, 4, 5]);
    }

    #[test]
    fn a_source_that_breaks_off_ends() {
        for source in [
            "\"abc", "r#\"abc", "/* a", "'", "'\\", "r#", "b", "fn f() {",
        ] {
            assert!(tokens(source).len() <= 5, "{source}");
        }
    }

    fn show(kind: &TokenKind) -> String {
        match kind {
            TokenKind::Word(word) => word.clone(),
            TokenKind::Text(text) => format!("\"{text}\""),
            TokenKind::Mark(mark) => mark.to_string(),
        }
    }
}
