//! Kinds of damage to a file of sealed lines, for the tests of all that are read back.
//!
//! A test includes this file with `#[path]`, and supplies the file of run `a` with the events of two steps.

/// The file of run `a`, of two steps.
pub(crate) struct Sample {
    /// After the first step.
    pub(crate) earlier: Vec<u8>,
    pub(crate) whole: Vec<u8>,
    /// The file of run `b`, of the same length.
    pub(crate) other: Vec<u8>,
}

impl Sample {
    pub(crate) fn lines(&self) -> Vec<Vec<u8>> {
        self.whole.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect()
    }

    /// With other lines.
    fn edited(&self, edit: impl FnOnce(&mut Vec<Vec<u8>>)) -> Vec<u8> {
        let mut lines = self.lines();
        edit(&mut lines);
        lines.concat()
    }

    fn replaced(&self, old: &str, new: &str) -> Vec<u8> {
        let text = String::from_utf8(self.whole.clone()).unwrap();
        assert!(text.contains(old), "{old} in {text}");
        text.replacen(old, new, 1).into_bytes()
    }

    /// The lengths at which it can be cut: at the end of each line, one byte before and one after.
    pub(crate) fn cuts(&self) -> impl Iterator<Item = usize> {
        let lines = self.lines();
        let ends = lines.iter().scan(0, |end, line| {
            *end += line.len();
            Some(*end)
        });
        let whole = self.whole.len();
        let cuts: Vec<_> = ends.flat_map(|end| [end - 1, end, end + 1]).collect();
        cuts.into_iter().filter(move |length| *length < whole)
    }

    /// The file after a kill during the write of the second step: it has lines that the header does not count yet. Cut at any
    /// length from that of `earlier` on, its run continues.
    pub(crate) fn unmarked(&self) -> Vec<u8> {
        let header = self.earlier.split_inclusive(|byte| *byte == b'\n').next().unwrap();
        assert_eq!(header.len(), self.lines()[0].len());
        let mut bytes = self.whole.clone();
        bytes[..header.len()].copy_from_slice(header);
        bytes
    }
}

/// One kind of damage: its name, what the error says, and the file.
pub(crate) type Row = (&'static str, &'static str, fn(&Sample) -> Vec<u8>);

/// Files with other bytes than a run wrote.
pub(crate) const CHANGED: [Row; 31] = [
    ("empty", "it is empty", |_| Vec::new()),
    ("a line feed", "line 1 is damaged", |_| b"\n".to_vec()),
    ("zeros", "lines at its end are missing", |s| vec![0; s.whole.len()]),
    ("zeros at the end", "was not written by a run", |s| [&s.whole[..], &[0; 64]].concat()),
    ("a block of zeros", "is damaged", |s| {
        let mut bytes = s.whole.clone();
        let middle = bytes.len() / 2;
        bytes[middle..middle + 64].fill(0);
        bytes
    }),
    ("garbage", "line 1 is damaged", |_| b"\x7fELF\x02\x01\n\x80\xff\n".to_vec()),
    ("garbage at the end", "was not written by a run", |s| [&s.whole[..], b"~~~"].concat()),
    ("a line of garbage", "it has no checksum", |s| [&s.whole[..], b"~~~\n"].concat()),
    ("a huge line", "it has no checksum", |s| {
        [&s.whole[..], b"{\"at\":1,\"event\":\"piece\",\"text\":\"", &vec![b'x'; 8 << 20], b"\"}\n"]
            .concat()
    }),
    ("half a header", "it has 0 of 1", |s| s.whole[..20].to_vec()),
    ("no header", "line 1 is damaged", |s| s.edited(|lines| drop(lines.remove(0)))),
    ("two headers", "line 2 is damaged", |s| s.edited(|lines| lines.insert(1, lines[0].clone()))),
    ("a line less", "lines were removed", |s| s.edited(|lines| drop(lines.remove(3)))),
    ("a line twice", "repeated", |s| s.edited(|lines| lines.insert(3, lines[3].clone()))),
    ("the last line twice", "repeated", |s| {
        s.edited(|lines| lines.push(lines.last().unwrap().clone()))
    }),
    ("the file twice", "is damaged", |s| [&s.whole[..], &s.whole].concat()),
    ("two lines swapped", "moved", |s| s.edited(|lines| lines.swap(3, 4))),
    ("lines in reverse", "moved", |s| s.edited(|lines| lines[1..].reverse())),
    ("an edited amount", "it was changed", |s| s.replaced("\"cost\":\"0.0", "\"cost\":\"0.1")),
    ("an edited time", "it was changed", |s| s.replaced("\"wall\":1", "\"wall\":2")),
    ("an edited number", "in the place of", |s| s.replaced("\"seq\":4", "\"seq\":5")),
    ("an edited checksum", "damaged", |s| {
        s.edited(|lines| {
            let line = &mut lines[4];
            let at = line.len() - 4;
            line[at] = if line[at] == b'0' { b'1' } else { b'0' };
        })
    }),
    ("no checksum", "it has no checksum", |s| {
        s.edited(|lines| lines[2] = b"{\"at\":1,\"event\":\"step_begin\"}\n".to_vec())
    }),
    ("an edited mark", "its number of lines", |s| {
        s.replaced("\"end\":\"0000000000", "\"end\":\"0000000009")
    }),
    ("another version", "the trace has version 2", |s| {
        s.replaced("\"endstop_trace\":1", "\"endstop_trace\":2")
    }),
    ("another run's file", "the file of another run", |s| s.other.clone()),
    ("another run's file, renamed", "it was changed", |s| {
        let text = String::from_utf8(s.other.clone()).unwrap();
        text.replacen("\"run\":\"b\"", "\"run\":\"a\"", 1).into_bytes()
    }),
    ("another run's lines", "of another file", |s| {
        let other = s.other.split_inclusive(|byte| *byte == b'\n').nth(2).unwrap().to_vec();
        s.edited(|lines| lines[2] = other)
    }),
    ("text that is not UTF-8", "is damaged", |s| s.edited(|lines| lines[3][10] = 0xff)),
    ("a byte order mark", "line 1 is damaged", |s| [b"\xef\xbb\xbf", &s.whole[..]].concat()),
    ("line ends of Windows", "line 1 is damaged", |s| {
        String::from_utf8(s.whole.clone()).unwrap().replace('\n', "\r\n").into_bytes()
    }),
];
