//! Requests for tests: those that are not plainly one thing, and those that are.

const OK: &str = "HTTP/1.1\r\nHost: h\r\n";

/// Fields of a head that make it ambiguous, by name.
const FIELDS: &[(&str, &str)] = &[
    ("both", "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n"),
    ("both, the other way", "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n"),
    ("two equal lengths", "Content-Length: 3\r\nContent-Length: 3\r\n"),
    ("two lengths", "Content-Length: 3\r\nContent-Length: 5\r\n"),
    ("lengths in two cases", "Content-Length: 3\r\ncontent-length: 3\r\n"),
    ("a list of lengths", "Content-Length: 3, 3\r\n"),
    ("length with a comma", "Content-Length: 3,\r\n"),
    ("length with a plus", "Content-Length: +3\r\n"),
    ("length with a minus", "Content-Length: -3\r\n"),
    ("length with minus zero", "Content-Length: -0\r\n"),
    ("hexadecimal length", "Content-Length: 0x3\r\n"),
    ("length with letters", "Content-Length: 3a\r\n"),
    ("length with an underline", "Content-Length: 1_0\r\n"),
    ("length with a space within", "Content-Length: 1 0\r\n"),
    ("length with a point", "Content-Length: 3.0\r\n"),
    ("length with an exponent", "Content-Length: 1e1\r\n"),
    ("no length", "Content-Length:\r\n"),
    ("blank length", "Content-Length:  \t\r\n"),
    ("length in quotes", "Content-Length: \"3\"\r\n"),
    ("length too large", "Content-Length: 18446744073709551616\r\n"),
    ("length far too large", "Content-Length: 99999999999999999999999999\r\n"),
    ("length with a vertical tab", "Content-Length: \u{b}3\r\n"),
    ("length with other digits", "Content-Length: ٣\r\n"),
    ("length with an underline in its name", "Content_Length: 3\r\n"),
    ("length and space before the colon", "Content-Length : 3\r\n"),
    ("length and tab before the colon", "Content-Length\t: 3\r\n"),
    ("length in a folded line", "X: a\r\n Content-Length: 3\r\n"),
    ("length on two lines", "Content-Length: 1\r\n 0\r\n"),
    ("encoding twice", "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"),
    ("encoding twice, one else", "Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n"),
    ("encoding in a list", "Transfer-Encoding: gzip, chunked\r\n"),
    ("encoding in a list, the other way", "Transfer-Encoding: chunked, gzip\r\n"),
    ("encoding chunked twice in a list", "Transfer-Encoding: chunked, chunked\r\n"),
    ("encoding with a comma", "Transfer-Encoding: chunked,\r\n"),
    ("encoding after a comma", "Transfer-Encoding: ,chunked\r\n"),
    ("encoding identity", "Transfer-Encoding: identity\r\n"),
    ("encoding gzip", "Transfer-Encoding: gzip\r\n"),
    ("encoding unknown", "Transfer-Encoding: cow\r\n"),
    ("encoding almost chunked", "Transfer-Encoding: xchunked\r\n"),
    ("encoding chunked and more", "Transfer-Encoding: chunkedx\r\n"),
    ("encoding with a parameter", "Transfer-Encoding: chunked;q=1\r\n"),
    ("encoding in quotes", "Transfer-Encoding: \"chunked\"\r\n"),
    ("encoding after a vertical tab", "Transfer-Encoding: \u{b}chunked\r\n"),
    ("encoding empty", "Transfer-Encoding:\r\n"),
    ("encoding with an underline", "Transfer_Encoding: chunked\r\n"),
    ("encoding, space before the colon", "Transfer-Encoding : chunked\r\n"),
    ("encoding on two lines", "Transfer-Encoding:\r\n chunked\r\n"),
    ("encoding on two lines, after a tab", "Transfer-Encoding:\r\n\tchunked\r\n"),
    ("encoding, carriage return before", "X: a\rTransfer-Encoding: chunked\r\n"),
    ("encoding, line feed before", "X: a\nTransfer-Encoding: chunked\r\n"),
    ("bare line feed at the end of a field", "X: a\n"),
    ("bare line feed before the length", "X: a\nContent-Length: 3\r\n"),
    ("bare carriage return in a value", "X: a\rb\r\n"),
    ("two carriage returns", "X: a\r\r\n"),
    ("NUL in a value", "X: a\0b\r\n"),
    ("NUL in a name", "X\0: a\r\n"),
    ("escape in a value", "X: a\u{1b}b\r\n"),
    ("delete in a value", "X: a\u{7f}b\r\n"),
    ("folded line", "X: a\r\n b\r\n"),
    ("folded by a tab", "X: a\r\n\tb\r\n"),
    ("line without a colon", "X\r\n"),
    ("line without a name", ": a\r\n"),
    ("space in a name", "X Y: a\r\n"),
    ("space before a name", " X: a\r\n"),
    ("parenthesis in a name", "X(: a\r\n"),
    ("other letters in a name", "Xé: a\r\n"),
    ("second host", "Host: g\r\n"),
    ("second host, the same", "Host: h\r\n"),
    ("second host in another case", "hOST: h\r\n"),
];

/// Requests that are wrong as a whole, by name.
const REQUESTS: &[(&str, &str)] = &[
    ("space before the first colon", "GET / HTTP/1.1\r\nHost : h\r\n\r\n"),
    ("folded first field", "GET / HTTP/1.1\r\n Host: h\r\n\r\n"),
    ("no host", "GET / HTTP/1.1\r\n\r\n"),
    ("empty host", "GET / HTTP/1.1\r\nHost:\r\n\r\n"),
    ("two hosts in one field", "GET / HTTP/1.1\r\nHost: h, g\r\n\r\n"),
    ("host with a user", "GET / HTTP/1.1\r\nHost: u@h\r\n\r\n"),
    ("host with a path", "GET / HTTP/1.1\r\nHost: h/x\r\n\r\n"),
    ("host with a space", "GET / HTTP/1.1\r\nHost: h g\r\n\r\n"),
    ("other host in the target", "GET http://g/ HTTP/1.1\r\nHost: h\r\n\r\n"),
    ("other port in the target", "GET http://h:1/ HTTP/1.1\r\nHost: h\r\n\r\n"),
    ("user in the target", "GET http://h@g/ HTTP/1.1\r\nHost: h\r\n\r\n"),
    ("no host in the target", "GET http:///x HTTP/1.1\r\nHost: h\r\n\r\n"),
    ("other scheme in the target", "GET ftp://h/ HTTP/1.1\r\nHost: h\r\n\r\n"),
    ("file in the target", "GET file:///etc/passwd HTTP/1.1\r\nHost: h\r\n\r\n"),
    ("host alone as target", "GET h:80 HTTP/1.1\r\nHost: h:80\r\n\r\n"),
    ("tunnel", "CONNECT h:443 HTTP/1.1\r\nHost: h:443\r\n\r\n"),
    ("asterisk for a path", "GET * HTTP/1.1\r\nHost: h\r\n\r\n"),
    ("no slash", "GET x HTTP/1.1\r\nHost: h\r\n\r\n"),
    ("empty target", "GET  HTTP/1.1\r\nHost: h\r\n\r\n"),
    ("space in the target", "GET /a b HTTP/1.1\r\nHost: h\r\n\r\n"),
    ("two spaces before the target", "GET  /a HTTP/1.1\r\nHost: h\r\n\r\n"),
    ("two spaces after the target", "GET /a  HTTP/1.1\r\nHost: h\r\n\r\n"),
    ("tabs for spaces", "GET\t/a\tHTTP/1.1\r\nHost: h\r\n\r\n"),
    ("fragment", "GET /a#b HTTP/1.1\r\nHost: h\r\n\r\n"),
    ("backslash", "GET /a\\b HTTP/1.1\r\nHost: h\r\n\r\n"),
    ("NUL in the target", "GET /a\0 HTTP/1.1\r\nHost: h\r\n\r\n"),
    ("carriage return in the target", "GET /a\rb HTTP/1.1\r\nHost: h\r\n\r\n"),
    ("other letters in the target", "GET /é HTTP/1.1\r\nHost: h\r\n\r\n"),
    ("HTTP/0.9", "GET /\r\n\r\n"),
    ("HTTP/0.9 by name", "GET / HTTP/0.9\r\nHost: h\r\n\r\n"),
    ("HTTP/1.2", "GET / HTTP/1.2\r\nHost: h\r\n\r\n"),
    ("HTTP/2", "GET / HTTP/2.0\r\nHost: h\r\n\r\n"),
    ("the beginning of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    ("version in small letters", "GET / http/1.1\r\nHost: h\r\n\r\n"),
    ("version with more digits", "GET / HTTP/1.10\r\nHost: h\r\n\r\n"),
    ("version after a space", "GET / HTTP/1.1 \r\nHost: h\r\n\r\n"),
    ("other protocol", "GET / RTSP/1.0\r\nHost: h\r\n\r\n"),
    ("method with a colon", "GE:T / HTTP/1.1\r\nHost: h\r\n\r\n"),
    ("no method", " / HTTP/1.1\r\nHost: h\r\n\r\n"),
    ("space before the method", " GET / HTTP/1.1\r\nHost: h\r\n\r\n"),
    ("long method", "GGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGG / HTTP/1.1\r\nHost: h\r\n\r\n"),
    ("two empty lines before", "\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n"),
    ("bare line feed before", "\nGET / HTTP/1.1\r\nHost: h\r\n\r\n"),
    ("bare line feeds only", "GET / HTTP/1.1\nHost: h\n\n"),
    ("bare line feed after the request line", "GET / HTTP/1.1\nHost: h\r\n\r\n"),
    ("bare line feed at the end", "GET / HTTP/1.1\r\nHost: h\r\n\n"),
    ("two carriage returns at the end", "GET / HTTP/1.1\r\nHost: h\r\n\r\r\n"),
    ("chunked in HTTP/1.0", "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    ("TLS", "\u{16}\u{3}\u{1}\u{0}\u{5}hello\n\r\n"),
    ("garbage", "abc\r\n\r\n"),
];

/// Bodies that are not plainly chunks, by name.
const CHUNKS: &[(&str, &str)] = &[
    ("size with 0x", "0x3\r\nabc\r\n0\r\n\r\n"),
    ("size with a plus", "+3\r\nabc\r\n0\r\n\r\n"),
    ("size with a minus", "-3\r\nabc\r\n0\r\n\r\n"),
    ("size with an underline", "0_3\r\nabc\r\n0\r\n\r\n"),
    ("space before the size", " 3\r\nabc\r\n0\r\n\r\n"),
    ("space after the size", "3 \r\nabc\r\n0\r\n\r\n"),
    ("tab after the size", "3\t\r\nabc\r\n0\r\n\r\n"),
    ("space before the extension", "3 ;x\r\nabc\r\n0\r\n\r\n"),
    ("no size", "\r\nabc\r\n0\r\n\r\n"),
    ("extension and no size", ";x\r\nabc\r\n0\r\n\r\n"),
    ("size with other letters", "3g\r\nabc\r\n0\r\n\r\n"),
    ("size too long", "00000000000000003\r\nabc\r\n0\r\n\r\n"),
    ("size too large", "fffffffffffffffff\r\nabc\r\n0\r\n\r\n"),
    ("bare line feed after the size", "3\nabc\r\n0\r\n\r\n"),
    ("bare carriage return after the size", "3\rabc\r\n0\r\n\r\n"),
    ("bare line feed in an extension", "3;x\nabc\r\n0\r\n\r\n"),
    ("carriage return in an extension", "3;x\ry\r\nabc\r\n0\r\n\r\n"),
    ("NUL in an extension", "3;\0\r\nabc\r\n0\r\n\r\n"),
    ("bare line feed after the data", "3\r\nabc\n0\r\n\r\n"),
    ("no line end after the data", "3\r\nabc0\r\n\r\n"),
    ("more data than said", "3\r\nabcd\r\n0\r\n\r\n"),
    ("NUL as size", "\0\r\nabc\r\n0\r\n\r\n"),
    ("bare line feed after the last size", "0\n\r\n"),
    ("bare line feed after the last chunk", "0\r\n\n"),
    ("length in a trailer", "3\r\nabc\r\n0\r\nContent-Length: 3\r\n\r\n"),
    ("encoding in a trailer", "3\r\nabc\r\n0\r\nTransfer-Encoding: chunked\r\n\r\n"),
    ("host in a trailer", "3\r\nabc\r\n0\r\nHost: g\r\n\r\n"),
    ("trailer without a colon", "3\r\nabc\r\n0\r\nGET / HTTP/1.1\r\n\r\n"),
    ("folded trailer", "3\r\nabc\r\n0\r\nX: a\r\n b\r\n\r\n"),
    ("bare line feed in a trailer", "3\r\nabc\r\n0\r\nX: a\n\r\n"),
];

/// Requests that end in different places for different readers, or that are not for this gateway, by name.
pub(crate) fn ambiguous() -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    for (name, fields) in FIELDS {
        all.push(((*name).to_owned(), format!("POST /v1/x {OK}{fields}\r\nabc").into_bytes()));
    }
    for (name, request) in REQUESTS {
        all.push(((*name).to_owned(), request.as_bytes().to_vec()));
    }
    let extension = format!("3;{}\r\nabc\r\n0\r\n\r\n", "x".repeat(300));
    let trailers = format!("3\r\nabc\r\n0\r\n{}\r\n", "X: a\r\n".repeat(2_000));
    let long = [("long extension", extension.as_str()), ("many trailers", trailers.as_str())];
    for (name, chunks) in CHUNKS.iter().chain(&long) {
        let head = format!("POST /v1/x {OK}Transfer-Encoding: chunked\r\n\r\n");
        all.push((format!("chunk: {name}"), (head + chunks).into_bytes()));
    }
    all
}

/// Bytes that are plainly requests, and the body of each; the last one closes.
pub(crate) fn plain() -> Vec<(&'static str, Vec<&'static str>)> {
    vec![
        ("GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", vec![""]),
        ("\r\nGET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", vec![""]),
        ("GET / HTTP/1.0\r\n\r\n", vec![""]),
        ("POST / HTTP/1.0\r\nContent-Length: 3\r\n\r\nabc", vec!["abc"]),
        ("OPTIONS * HTTP/1.1\r\nhost:h\r\nconnection:close\r\n\r\n", vec![""]),
        ("GET http://H:1/x?y=[z] HTTP/1.1\r\nHost: h:1\r\nConnection: close\r\n\r\n", vec![""]),
        (
            "GET /%00?a=b&c=%20d HTTP/1.1\r\nHost: [::1]:80\r\nX:\r\nConnection: close\r\n\r\n",
            vec![""],
        ),
        (
            "POST /v1/x HTTP/1.1\r\nHost: h\r\nContent-Length: \t003 \r\nConnection: close\r\n\r\nabc",
            vec!["abc"],
        ),
        (
            "POST /v1/x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: Chunked\r\nConnection: close\r\n\r\n\
             3\r\nabc\r\n0a;n=\"v\"\r\n0123456789\r\n000\r\nX-Trailer: t\r\n\r\n",
            vec!["abc0123456789"],
        ),
        (
            "POST /1 HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\na\r\n\r\
             POST /2 HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n\r\n\r\n0\r\n\r\n\
             GET /3 HTTP/1.1\r\nHost: h\r\nUser-Agent: \u{e9}\r\n\r\n\r\n\
             POST /4 HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
            vec!["a\r\n\r", "\r\n", "", ""],
        ),
    ]
}
