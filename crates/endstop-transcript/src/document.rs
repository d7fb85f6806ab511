//! Files that are one JSON document, read as a stream: the elements of its list one by one, and the values of wanted
//! keys next to it; or every key with its value. A document of any size is read in the memory of its largest element.

use serde_json::value::RawValue;

use super::limits::MAX_ELEMENT_BYTES;
use super::part::Part;
use super::scan::{Scanner, Stop, Value};
use super::warning::{WarningKind, Warnings};

/// A part of a document; it lives as long as the callback that it is handed to.
#[derive(Clone, Copy, Debug)]
pub(super) enum Element<'d> {
    /// An element of the list.
    Item(&'d RawValue),
    /// A wanted key next to the list, and its value.
    Beside(&'d str, &'d RawValue),
}

/// The wanted parts of a document.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted<'w> {
    /// The keys of the list, from outside in: the elements of the list under the first key hold each a
    /// list under the second, and so on. A document that is a list is what the first key would hold; with
    /// more than one key, a list of such documents. Without a key no elements are wanted.
    pub(super) list: &'w [&'w str],
    /// Keys next to the list; the first value of each is handed over, at its place.
    pub(super) beside: &'w [&'w str],
}

/// The brackets of a list.
const LIST: [u8; 2] = [b'[', b']'];

/// Takes what is wanted.
type ElementHandler<'t> = dyn FnMut(Element<'_>) + 't;

/// Hands over the elements of the list that the document is, or that it holds under a key, unparsed, and the values
/// next to it under the wanted keys. Everything before a cut or a fault is handed over; the cut or fault is a
/// warning, and so is an element that is not JSON or larger than [`MAX_ELEMENT_BYTES`].
pub(super) fn each_element(
    part: &Part,
    wanted: Wanted<'_>,
    warnings: &Warnings,
    take: &mut ElementHandler<'_>,
) {
    read(part, wanted, MAX_ELEMENT_BYTES, warnings, take);
}

/// Hands over every key at the top of an object, and its value, as [`Element::Beside`]: a key that appears twice is
/// handed over twice. Faults are reported like those of [`each_element`].
pub(super) fn each_member(part: &Part, warnings: &Warnings, take: &mut ElementHandler<'_>) {
    let wanted = Wanted { list: &[], beside: &[] };
    scan(part, wanted, MAX_ELEMENT_BYTES, warnings, take, |document| document.read_members());
}

/// Looks for keys at the top of a document, in any place, and skips everything else. Ignores faults: this is a first
/// look, and they are reported when the elements are read.
pub(super) fn look_for(part: &Part, keys: &[&str], take: &mut dyn FnMut(&str, &RawValue)) {
    let wanted = Wanted { list: &[], beside: keys };
    read(part, wanted, MAX_ELEMENT_BYTES, &Warnings::default(), &mut |element| {
        if let Element::Beside(key, value) = element {
            take(key, value);
        }
    });
}

fn read(
    part: &Part,
    wanted: Wanted<'_>,
    limit: usize,
    warnings: &Warnings,
    take: &mut ElementHandler<'_>,
) {
    scan(part, wanted, limit, warnings, take, |document| document.read());
}

fn scan<'d>(
    part: &'d Part,
    wanted: Wanted<'d>,
    limit: usize,
    warnings: &'d Warnings,
    take: &'d mut ElementHandler<'_>,
    go: fn(&mut Document<'d, '_>) -> Result<(), Stop>,
) {
    let opened = part.open().map_err(Stop::Unreadable).and_then(|file| Scanner::new(file, limit));
    let scanner = match opened {
        Ok(scanner) => scanner,
        Err(stop) => return warn_of_stop(stop, None, part, warnings),
    };
    let mut document = Document { part, scanner, wanted, seen: Vec::new(), warnings, take };
    if let Err(stop) = go(&mut document) {
        document.fail(stop);
    }
}

struct Document<'d, 't> {
    part: &'d Part,
    scanner: Scanner<'d>,
    wanted: Wanted<'d>,
    /// Wanted keys that were handed over: an unknown nesting of the same name must not replace them.
    seen: Vec<&'d str>,
    warnings: &'d Warnings,
    take: &'d mut ElementHandler<'t>,
}

impl Document<'_, '_> {
    fn read(&mut self) -> Result<(), Stop> {
        match (self.scanner.peek()?, self.wanted.list) {
            // It is the whole document.
            (b'[', []) => return Ok(()),
            (b'[', [_]) => self.list(&[])?,
            (b'[', path) => self.documents(path)?,
            (b'{', path) => self.object(path, true)?,
            _ => return Err(Stop::Malformed("neither a list nor an object".to_owned())),
        }
        if self.has_all() { Ok(()) } else { self.scanner.end() }
    }

    /// Whether everything wanted was found: the rest of the file need not be read.
    fn has_all(&self) -> bool {
        self.wanted.list.is_empty() && self.seen.len() == self.wanted.beside.len()
    }

    fn read_members(&mut self) -> Result<(), Stop> {
        self.each([b'{', b'}'], &mut Self::member)?;
        self.scanner.end()
    }

    fn documents(&mut self, path: &[&str]) -> Result<(), Stop> {
        self.each(LIST, &mut |document| match document.scanner.peek()? {
            b'{' => document.object(path, true),
            _ => document.scanner.skip(),
        })
    }

    /// A list, in whose elements this path leads on.
    fn list(&mut self, path: &[&str]) -> Result<(), Stop> {
        self.each(LIST, &mut |document| match (document.scanner.peek()?, path) {
            (_, []) => document.value(None),
            (b'{', path) => document.object(path, false),
            _ => document.scanner.skip(),
        })
    }

    fn each(
        &mut self,
        [open, close]: [u8; 2],
        take: &mut dyn FnMut(&mut Self) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        self.scanner.expect(open)?;
        if self.scanner.take(close)? {
            return Ok(());
        }
        loop {
            take(self)?;
            if !self.scanner.take(b',')? {
                return self.scanner.expect(close);
            }
        }
    }

    /// Any key, and its value.
    fn member(&mut self) -> Result<(), Stop> {
        let key = match self.scanner.peek()? {
            b'"' => match self.scanner.keep()? {
                Value::Kept(raw) => serde_json::from_slice::<String>(raw),
                Value::TooLarge => Ok(String::new()),
            },
            _ => return self.scanner.expect(b'"'),
        };
        self.scanner.expect(b':')?;
        match key {
            Ok(key) => self.hand_over(Some(&key)),
            Err(error) => {
                self.warn(WarningKind::Malformed, || format!("not a key: {error}"));
                self.scanner.skip()
            }
        }
    }

    fn object(&mut self, path: &[&str], is_top: bool) -> Result<(), Stop> {
        self.scanner.expect(b'{')?;
        if self.scanner.take(b'}')? {
            return Ok(());
        }
        loop {
            let key = self.key(path, is_top)?;
            self.scanner.expect(b':')?;
            match (key, path) {
                (Some(Wish::List), [_, rest @ ..]) if self.scanner.peek()? == b'[' => {
                    self.list(rest)?;
                }
                // The format may call for a list that is missing; that does not damage the rest.
                (None | Some(Wish::List), _) => self.scanner.skip()?,
                (Some(Wish::Beside(key)), _) => self.value(Some(key))?,
            }
            if self.has_all() {
                return Ok(());
            }
            if !self.scanner.take(b',')? {
                return self.scanner.expect(b'}');
            }
        }
    }

    /// Reads a key, and what is wished of its value.
    fn key(&mut self, path: &[&str], is_top: bool) -> Result<Option<Wish>, Stop> {
        if self.scanner.peek()? != b'"' {
            return self.scanner.expect(b'"').map(|()| None);
        }
        let Value::Kept(raw) = self.scanner.keep()? else { return Ok(None) };
        // No wanted key has escapes.
        let name = raw.get(1..raw.len().saturating_sub(1)).unwrap_or_default();
        if path.first().is_some_and(|list| list.as_bytes() == name) {
            return Ok(Some(Wish::List));
        }
        let beside = if is_top { self.wanted.beside } else { &[] };
        let place = beside.iter().position(|key| key.as_bytes() == name);
        Ok(place.map(Wish::Beside))
    }

    /// Hands a value over: an element, or that of the wanted key at this place.
    fn value(&mut self, beside: Option<usize>) -> Result<(), Stop> {
        let key = beside.and_then(|place| self.wanted.beside.get(place)).copied();
        if key.is_some_and(|key| self.seen.contains(&key)) {
            return self.scanner.skip();
        }
        self.seen.extend(key);
        self.hand_over(key)
    }

    fn hand_over(&mut self, key: Option<&str>) -> Result<(), Stop> {
        let (kind, message) = match self.scanner.keep()? {
            Value::Kept(bytes) => match serde_json::from_slice::<&RawValue>(bytes) {
                Ok(value) => {
                    let element = key.map_or(Element::Item(value), |k| Element::Beside(k, value));
                    (self.take)(element);
                    return Ok(());
                }
                Err(error) => (WarningKind::Malformed, format!("not a document: {error}")),
            },
            Value::TooLarge => {
                let limit = MAX_ELEMENT_BYTES >> 20;
                (WarningKind::TooLarge, format!("an element of more than {limit} MiB is skipped"))
            }
        };
        self.warn(kind, || message);
        Ok(())
    }

    fn warn(&mut self, kind: WarningKind, message: impl FnOnce() -> String) {
        self.warnings.add(kind, self.part.name(), Some(self.scanner.line()), message);
    }

    fn fail(&mut self, stop: Stop) {
        let line = Some(self.scanner.line());
        let is_bracket = |byte: Option<u8>| matches!(byte, Some(b']' | b'}'));
        // Every complete document ends with a bracket.
        let stop = match stop {
            Stop::Malformed(_) if !is_bracket(self.scanner.last_byte()) => Stop::Truncated,
            stop => stop,
        };
        warn_of_stop(stop, line, self.part, self.warnings);
    }
}

/// The wanted form of the value of a key.
enum Wish {
    List,
    /// The wanted key at this place.
    Beside(usize),
}

fn warn_of_stop(stop: Stop, line: Option<u64>, part: &Part, warnings: &Warnings) {
    let (kind, line, message) = match stop {
        Stop::Truncated => {
            let message = "the file ends in the middle of its document".to_owned();
            (WarningKind::Truncated, line, message)
        }
        Stop::Malformed(words) => {
            (WarningKind::Malformed, line, format!("not a document of this format: {words}"))
        }
        Stop::Unreadable(error) => {
            (WarningKind::Unreadable, None, format!("cannot be read: {error}"))
        }
    };
    warnings.add(kind, part.name(), line, || message);
}

/// A warning about an element that is JSON but not what its format says.
pub(super) fn warn_of(error: &serde_json::Error, part: &Part, warnings: &Warnings) {
    let message = || format!("not a document of this format: {error}");
    warnings.add(WarningKind::Malformed, part.name(), None, message);
}

#[cfg(test)]
mod tests;
