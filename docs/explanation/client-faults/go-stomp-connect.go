// github.com/go-stomp/stomp/v3 v3.1.3: a passcode with a colon arrives escaped.
//
// The client logs in with the passcode a:b. CONNECT contains a\cb, so the login fails.
//
// STOMP 1.2, Value Encoding: "The CONNECT and CONNECTED frames do not escape the carriage return, line feed
// or colon octets".
//
// Cause: frame/writer.go#L53-L66 escapes the headers of every frame.
// Run: go mod init x && go get github.com/go-stomp/stomp/v3@v3.1.3 && go run go-stomp-connect.go
package main

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/go-stomp/stomp/v3"
)

func main() {
	listener, _ := net.Listen("tcp", "127.0.0.1:0")
	go stomp.Dial("tcp", listener.Addr().String(), stomp.ConnOpt.Login("ann", "a:b"))
	client, _ := listener.Accept()
	connect, _ := bufio.NewReader(client).ReadString(0)
	for _, line := range strings.Split(connect, "\n") {
		if strings.HasPrefix(line, "passcode") {
			fmt.Println(line)
			if line != "passcode:a:b" {
				os.Exit(1)
			}
		}
	}
}
