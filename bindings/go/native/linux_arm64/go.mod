module terracedb.org/go/native/linux_arm64

go 1.24
