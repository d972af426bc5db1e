// github.com/go-stomp/stomp/v3 v3.1.3: while more than 16 messages wait, no heartbeats are sent.
//
// The server delivers 40 messages, and the application takes four seconds to process the first. The client,
// which agreed to beat every 500 ms, is silent all that time, and a broker closes the connection.
//
// STOMP 1.2, Heart-beating: "the sender MUST send new data over the network connection at least every n
// milliseconds".
//
// Cause: conn.go#L390-L393: when a subscription's channel is full (conn.go#L747: 16), processLoop, which also
// sends the heartbeats, waits until the application takes a message.
// Run: go mod init x && go get github.com/go-stomp/stomp/v3@v3.1.3 && go run go-stomp-heartbeats.go
package main

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/go-stomp/stomp/v3"
)

func main() {
	listener, _ := net.Listen("tcp", "127.0.0.1:0")
	go func() {
		connection, _ := stomp.Dial("tcp", listener.Addr().String(), stomp.ConnOpt.HeartBeat(500*time.Millisecond, 0))
		subscription, _ := connection.Subscribe("/queue/a", stomp.AckAuto)
		for range subscription.C {
			time.Sleep(4 * time.Second)
		}
	}()
	client, _ := listener.Accept()
	reader := bufio.NewReader(client)
	reader.ReadString(0)
	fmt.Fprint(client, "CONNECTED\nversion:1.2\nheart-beat:0,500\n\n\x00")
	subscribe, _ := reader.ReadString(0)
	id := strings.Split(strings.Split(subscribe, "\nid:")[1], "\n")[0]
	for number := 0; number < 40; number++ {
		fmt.Fprintf(client, "MESSAGE\nsubscription:%s\nmessage-id:%d\ndestination:/queue/a\n\nx\x00", id, number)
	}
	longest, last := time.Duration(0), time.Now()
	for time.Since(last) < 5*time.Second && longest < 3*time.Second {
		client.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		if _, err := reader.ReadByte(); err == nil {
			last = time.Now()
		}
		longest = max(longest, time.Since(last))
	}
	fmt.Printf("the client was silent for %v; it promised a beat every 500 ms\n", longest.Round(time.Second/10))
	if longest > time.Second {
		os.Exit(1)
	}
}
