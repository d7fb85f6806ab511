//! Every call to the disk fails once, or is the last before a crash: nothing acknowledged is lost.
