module terracedb.org/go/native/linux_amd64

go 1.24
