//! One pass over a text of JSON.
//!
//! Every event of every stream is read, and a general deserializer makes more of each value than is needed here:
//! numbers are not needed as numbers, nor strings as strings. Invalid JSON is found as any parser does.

use memchr::memchr2;
use thiserror::Error;

use super::{Key, MAX_ITEMS, Raw};

/// How many times eight bytes a string has that is short.
const SHORT: usize = 4;

/// Members that the object of a request has, with room for some more.
const USUAL_MEMBERS: usize = 16;

/// Why a text cannot be read as JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{what} at byte {at}")]
pub struct JsonError {
    what: &'static str,
    at: usize,
}

/// A type that can be read from a value; from one of another kind, its default.
pub(crate) trait FromJson<'j>: Sized {
    /// Reads the next value.
    fn from_json(walk: &mut Walk<'j>) -> Result<Self, JsonError>;

    /// Reads a value whose text is known.
    fn of_raw(raw: Raw<'j>) -> Self
    where
        Self: Default,
    {
        raw.read()
    }
}

/// A type that can be read from the members of an object.
pub(crate) trait FromMembers<'j> {
    /// Reads members that are all those of an object, in order.
    fn of_members(members: &[(Key<'j>, Raw<'j>)]) -> Self;
}

/// The members of an object as they are: in order, with all duplicates.
type Listed<'j> = Vec<(Key<'j>, Raw<'j>)>;

/// Reads a text that is one value.
pub(crate) fn parse<'j, T: FromJson<'j>>(text: &'j str) -> Result<T, JsonError> {
    parse_with(text, None, false).map(|(value, _)| value)
}

/// Reads a value whose text is known to be JSON.
pub(super) fn parse_known<'j, T: FromJson<'j>>(value: Raw<'j>) -> Result<T, JsonError> {
    parse_with(value.json(), None, true).map(|(value, _)| value)
}

/// Like [`parse`], including the members of the object that the text is.
pub(crate) fn parse_noting<'j, T: FromJson<'j>>(
    text: &'j str,
) -> Result<(T, Listed<'j>), JsonError> {
    let (value, noted) = parse_with(text, Some(Vec::with_capacity(USUAL_MEMBERS)), false)?;
    Ok((value, noted.unwrap_or_default()))
}

fn parse_with<'j, T: FromJson<'j>>(
    text: &'j str,
    noted: Option<Listed<'j>>,
    is_known: bool,
) -> Result<(T, Option<Listed<'j>>), JsonError> {
    let mut walk = Walk { text, at: 0, is_known, open: Vec::new(), noted };
    let value = T::from_json(&mut walk)?;
    match walk.next() {
        None => Ok((value, walk.noted)),
        Some(_) => Err(walk.broken("more than one value")),
    }
}

/// A place in a text.
#[derive(Debug)]
pub(crate) struct Walk<'j> {
    text: &'j str,
    at: usize,
    /// The text is known to be JSON: values that are skipped are not checked.
    is_known: bool,
    /// The closing brackets of the lists and objects that are being skipped.
    open: Vec<u8>,
    /// The members of the next object, if they should be noted.
    noted: Option<Listed<'j>>,
}

impl<'j> Walk<'j> {
    /// Takes each member of an object in turn: `member` has to take its value. Anything else is skipped.
    pub(crate) fn object(
        &mut self,
        mut member: impl FnMut(Key<'j>, &mut Self) -> Result<(), JsonError>,
    ) -> Result<(), JsonError> {
        if self.next() != Some(b'{') {
            return self.skip();
        }
        self.step();
        if self.takes(b'}') {
            return Ok(());
        }
        // Not those of objects in it.
        let mut noted = self.noted.take();
        loop {
            let key = self.key()?;
            match &mut noted {
                None => member(key, self)?,
                Some(noted) if noted.len() < MAX_ITEMS => {
                    self.next();
                    let start = self.at;
                    member(key.clone(), self)?;
                    noted.push((key, self.text_since(start)));
                }
                Some(_) => return Err(self.broken("too many members")),
            }
            if self.ends(b'}')? {
                self.noted = noted;
                return Ok(());
            }
        }
    }

    /// Takes each element of a list in turn: `element` has to take it. Anything else is skipped.
    pub(crate) fn list(
        &mut self,
        mut element: impl FnMut(&mut Self) -> Result<(), JsonError>,
    ) -> Result<(), JsonError> {
        if self.next() != Some(b'[') {
            return self.skip();
        }
        self.step();
        if self.takes(b']') {
            return Ok(());
        }
        loop {
            element(self)?;
            if self.ends(b']')? {
                return Ok(());
            }
        }
    }

    /// The text of the next value.
    pub(crate) fn raw(&mut self) -> Result<Raw<'j>, JsonError> {
        self.next();
        let start = self.at;
        self.skip()?;
        Ok(self.text_since(start))
    }

    /// The text of the next value, and what can be read of it.
    pub(crate) fn with_text<T: FromJson<'j>>(&mut self) -> Result<(Raw<'j>, T), JsonError> {
        self.next();
        let start = self.at;
        let value = T::from_json(self)?;
        Ok((self.text_since(start), value))
    }

    /// Passes over the next value, however deep it is.
    pub(crate) fn skip(&mut self) -> Result<(), JsonError> {
        if self.is_known {
            return self.skip_known();
        }
        self.open.clear();
        loop {
            match self.next() {
                Some(b'"') => {
                    self.step();
                    self.string()?;
                }
                Some(b'{') => {
                    self.step();
                    if !self.takes(b'}') {
                        self.open.push(b'}');
                        self.skip_key()?;
                        continue;
                    }
                }
                Some(b'[') => {
                    self.step();
                    if !self.takes(b']') {
                        self.open.push(b']');
                        continue;
                    }
                }
                Some(b'-' | b'0'..=b'9') => self.number()?,
                Some(_) => self.word()?,
                None => return Err(self.broken("a value is missing")),
            }
            if self.ends_all()? {
                return Ok(());
            }
        }
    }

    /// Passes over the next value of a text that is known to be JSON: only strings and brackets tell where it ends.
    fn skip_known(&mut self) -> Result<(), JsonError> {
        self.next();
        let mut depth = 0usize;
        loop {
            match self.peek() {
                Some(b'"') => {
                    self.step();
                    self.string()?;
                }
                Some(b'{' | b'[') => {
                    self.step();
                    depth = depth.saturating_add(1);
                }
                Some(b'}' | b']') => {
                    self.step();
                    depth = depth.saturating_sub(1);
                }
                Some(byte) if is_between(byte) => self.step(),
                Some(_) => {
                    while self.peek().is_some_and(|byte| !is_between(byte) && !closes(byte)) {
                        self.step();
                    }
                }
                None => return Err(self.broken("a value is missing")),
            }
            if depth == 0 {
                return Ok(());
            }
        }
    }

    /// That something is wrong here.
    pub(crate) const fn broken(&self, what: &'static str) -> JsonError {
        JsonError { what, at: self.at }
    }

    /// After a value that is skipped: whether it was the last one. If not, the next one follows.
    fn ends_all(&mut self) -> Result<bool, JsonError> {
        while let Some(&close) = self.open.last() {
            if self.ends(close)? {
                self.open.pop();
                continue;
            }
            if close == b'}' {
                self.skip_key()?;
            }
            return Ok(false);
        }
        Ok(true)
    }

    fn key(&mut self) -> Result<Key<'j>, JsonError> {
        self.next();
        let start = self.at;
        let is_plain = self.skip_string()?;
        let end = self.at;
        self.expect(b':')?;
        if is_plain {
            let inner = start.saturating_add(1)..end.saturating_sub(1);
            return Ok(Key(self.text.get(inner).unwrap_or_default().into()));
        }
        let text = Raw::known(self.text.get(start..end).unwrap_or_default()).text();
        text.map(Key).ok_or_else(|| self.broken("a key that cannot be read"))
    }

    fn skip_key(&mut self) -> Result<(), JsonError> {
        self.skip_string()?;
        self.expect(b':')
    }

    /// Skips a string, and returns whether it has no escapes.
    fn skip_string(&mut self) -> Result<bool, JsonError> {
        self.expect(b'"')?;
        self.string()
    }

    /// Skips the rest of a string after its opening quote, and returns whether it has no escapes.
    fn string(&mut self) -> Result<bool, JsonError> {
        let mut is_plain = true;
        loop {
            self.at = self.at.saturating_add(plain_length(self.rest()));
            match self.peek() {
                Some(b'"') => {
                    self.step();
                    return Ok(is_plain);
                }
                Some(b'\\') => {
                    is_plain = false;
                    self.step();
                    self.escape()?;
                }
                Some(_) => return Err(self.broken("a control character in a string")),
                None => return Err(self.broken("a string without an end")),
            }
        }
    }

    fn escape(&mut self) -> Result<(), JsonError> {
        let length = match self.peek() {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => 1,
            Some(b'u') => {
                let digits = self.rest().get(1..5);
                if !digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit)) {
                    return Err(self.broken("an escape that is none"));
                }
                5
            }
            _ => return Err(self.broken("an escape that is none")),
        };
        self.at = self.at.saturating_add(length);
        Ok(())
    }

    fn number(&mut self) -> Result<(), JsonError> {
        if self.peek() == Some(b'-') {
            self.step();
        }
        if self.peek() == Some(b'0') {
            self.step();
        } else {
            self.digits()?;
        }
        if self.peek() == Some(b'.') {
            self.step();
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.step();
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.step();
            }
            self.digits()?;
        }
        Ok(())
    }

    fn digits(&mut self) -> Result<(), JsonError> {
        if !self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            return Err(self.broken("a number without digits"));
        }
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.step();
        }
        Ok(())
    }

    fn word(&mut self) -> Result<(), JsonError> {
        let known = ["null", "true", "false"];
        let rest = self.rest();
        let word = known.iter().find(|word| rest.starts_with(word.as_bytes()));
        let word = word.ok_or_else(|| self.broken("a value is missing"))?;
        self.at = self.at.saturating_add(word.len());
        Ok(())
    }

    fn text_since(&self, start: usize) -> Raw<'j> {
        Raw::known(self.text.get(start..self.at).unwrap_or_default())
    }

    fn rest(&self) -> &'j [u8] {
        self.text.as_bytes().get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    const fn step(&mut self) {
        self.at = self.at.saturating_add(1);
    }

    /// The next byte that is no white space; it stays.
    fn next(&mut self) -> Option<u8> {
        loop {
            match self.peek() {
                Some(b' ' | b'\n' | b'\r' | b'\t') => self.step(),
                other => return other,
            }
        }
    }

    /// After a member or an element: whether it was the last one. Takes what closes, or the comma.
    fn ends(&mut self, close: u8) -> Result<bool, JsonError> {
        let next = self.next();
        if next != Some(close) && next != Some(b',') {
            return Err(self.broken("another character is expected"));
        }
        self.step();
        Ok(next == Some(close))
    }

    /// Takes a byte if it is the next one.
    fn takes(&mut self, byte: u8) -> bool {
        let is_it = self.next() == Some(byte);
        self.at = self.at.saturating_add(usize::from(is_it));
        is_it
    }

    fn expect(&mut self, byte: u8) -> Result<(), JsonError> {
        if self.takes(byte) { Ok(()) } else { Err(self.broken("another character is expected")) }
    }
}

/// Whether a byte is one of those between values.
const fn is_between(byte: u8) -> bool {
    matches!(byte, b',' | b':' | b' ' | b'\n' | b'\r' | b'\t')
}

/// Whether a byte ends an object or a list.
const fn closes(byte: u8) -> bool {
    matches!(byte, b'}' | b']')
}

/// Whether the characters of a string all stand for themselves in JSON.
pub(crate) fn is_plain(text: &str) -> bool {
    let is_plain = |byte: u8| byte >= b' ' && byte != b'"' && byte != b'\\';
    text.bytes().fold(true, |all, byte| all & is_plain(byte))
}

/// How many bytes are characters of a string that stand for themselves. Most strings are short: the first bytes are
/// checked eight at a time, without a call.
fn plain_length(bytes: &[u8]) -> usize {
    let (words, _) = bytes.as_chunks::<8>();
    let mut length = 0usize;
    for word in words.iter().take(SHORT) {
        let found = marks(u64::from_le_bytes(*word));
        if found != 0 {
            let byte = usize::try_from(found.trailing_zeros() / 8).unwrap_or(0);
            return length.saturating_add(byte);
        }
        length = length.saturating_add(8);
    }
    length.saturating_add(long_plain_length(bytes.get(length..).unwrap_or_default()))
}

fn long_plain_length(bytes: &[u8]) -> usize {
    let end = memchr2(b'"', b'\\', bytes).unwrap_or(bytes.len());
    let inner = bytes.get(..end).unwrap_or_default();
    // Checks all of them, and so many at a time.
    let has_control = inner.iter().fold(false, |found, byte| found | (*byte < b' '));
    let control = has_control.then(|| inner.iter().position(|byte| *byte < b' ')).flatten();
    control.unwrap_or(end)
}

/// The highest bits of those of eight bytes that end a string or begin an escape, or may not be in a string. A byte
/// of a difference that borrows has its highest bit set; the lowest one that has is never there by mistake.
const fn marks(word: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    const SPACES: u64 = 0x2020_2020_2020_2020;
    const QUOTES: u64 = 0x2222_2222_2222_2222;
    const ESCAPES: u64 = 0x5c5c_5c5c_5c5c_5c5c;
    let (quote, escape) = (word ^ QUOTES, word ^ ESCAPES);
    let control = word.wrapping_sub(SPACES) & !word;
    let quote = quote.wrapping_sub(ONES) & !quote;
    let escape = escape.wrapping_sub(ONES) & !escape;
    (control | quote | escape) & HIGH
}
