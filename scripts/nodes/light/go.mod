module opsctl.test/light

go 1.24
