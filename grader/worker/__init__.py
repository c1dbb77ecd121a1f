"""The process that runs a submission: untrusted, without tests, oracles or solutions."""
