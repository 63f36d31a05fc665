module terrace-format-readers

go 1.23

require github.com/syndtr/goleveldb v1.0.1-0.20220721030215-126854af5e6d

require github.com/golang/snappy v0.0.5-0.20231225225746-43d5d4cd4e0e // indirect
