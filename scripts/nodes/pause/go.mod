module opsctl.test/pause

go 1.24
