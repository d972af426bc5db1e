// The driver of go-stomp: see docs/reference/client-drivers.md.
package main

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"runtime/debug"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/go-stomp/stomp/v3"
	"github.com/go-stomp/stomp/v3/frame"
)

const module = "github.com/go-stomp/stomp/v3"

type command struct {
	Do          string
	Host        string
	Port        int
	Version     string
	HeartBeat   []int `json:"heart_beat"`
	Login       string
	Passcode    string
	Vhost       string
	Destination string
	ID          string
	Ack         string
	Body        string
	Base64      string
	Headers     map[string]string
	ContentType string `json:"content_type"`
	Transaction string
	Message     int
	Ms          int
}

var (
	output        sync.Mutex
	connection    *stomp.Conn
	subscriptions = map[string]*stomp.Subscription{}
	transactions  = map[string]*stomp.Transaction{}
	state         sync.Mutex
	received      []*stomp.Message
	busyMs        int
)

func report(saw string, fields map[string]any) {
	if fields == nil {
		fields = map[string]any{}
	}
	fields["saw"] = saw
	fields["at"] = time.Now().UnixNano()
	line, _ := json.Marshal(fields)
	output.Lock()
	defer output.Unlock()
	os.Stdout.Write(append(line, '\n'))
}

func mapping(header *frame.Header) map[string]string {
	values := map[string]string{}
	for i := header.Len() - 1; i >= 0; i-- { // the first of repeated headers counts
		name, value := header.GetAt(i)
		values[name] = value
	}
	return values
}

func listen(subscription *stomp.Subscription) {
	for message := range subscription.C {
		if message.Err != nil {
			report("error", map[string]any{"headers": map[string]string{}, "body": message.Err.Error()})
			report("disconnected", nil)
			continue
		}
		state.Lock()
		received = append(received, message)
		number, work := len(received), busyMs
		busyMs = 0
		state.Unlock()
		fields := map[string]any{"number": number, "headers": mapping(message.Header)}
		if utf8.Valid(message.Body) {
			fields["body"] = string(message.Body)
		} else {
			fields["base64"] = base64.StdEncoding.EncodeToString(message.Body)
		}
		report("message", fields)
		if work > 0 {
			<-time.After(time.Duration(work) * time.Millisecond)
			report("worked", map[string]any{"number": number})
		}
	}
}

func connect(asked command) error {
	beat := func(ms int) time.Duration { return time.Duration(ms) * time.Millisecond }
	options := []func(*stomp.Conn) error{
		stomp.ConnOpt.Login(asked.Login, asked.Passcode),
		stomp.ConnOpt.AcceptVersion(stomp.Version(asked.Version)),
		stomp.ConnOpt.HeartBeat(beat(asked.HeartBeat[0]), beat(asked.HeartBeat[1])),
	}
	if asked.Version != "1.0" {
		options = append(options, stomp.ConnOpt.Host(asked.Vhost))
	}
	made, err := stomp.Dial("tcp", fmt.Sprintf("%s:%d", asked.Host, asked.Port), options...)
	if err != nil {
		report("error", map[string]any{"headers": map[string]string{}, "body": err.Error()})
		return err
	}
	connection = made
	report("connected", map[string]any{"headers": map[string]string{}})
	return nil
}

func send(asked command) error {
	body := []byte(asked.Body)
	if asked.Base64 != "" {
		body, _ = base64.StdEncoding.DecodeString(asked.Base64)
	}
	options := []func(*frame.Frame) error{}
	for name, value := range asked.Headers {
		options = append(options, stomp.SendOpt.Header(name, value))
	}
	if asked.Transaction != "" {
		return transactions[asked.Transaction].Send(asked.Destination, asked.ContentType, body, options...)
	}
	return connection.Send(asked.Destination, asked.ContentType, body, options...)
}

func settle(asked command) error {
	state.Lock()
	message := received[asked.Message-1]
	state.Unlock()
	transaction := transactions[asked.Transaction]
	switch {
	case asked.Do == "ack" && transaction != nil:
		return transaction.Ack(message)
	case asked.Do == "ack":
		return connection.Ack(message)
	case transaction != nil:
		return transaction.Nack(message)
	default:
		return connection.Nack(message)
	}
}

func obey(asked command) error {
	switch asked.Do {
	case "connect":
		return connect(asked)
	case "subscribe":
		modes := map[string]stomp.AckMode{"auto": stomp.AckAuto, "client": stomp.AckClient, "client-individual": stomp.AckClientIndividual}
		made, err := connection.Subscribe(asked.Destination, modes[asked.Ack], stomp.SubscribeOpt.Id(asked.ID))
		if err == nil {
			subscriptions[asked.ID] = made
			go listen(made)
		}
		return err
	case "unsubscribe":
		go subscriptions[asked.ID].Unsubscribe()
		return nil
	case "send":
		return send(asked)
	case "ack", "nack":
		return settle(asked)
	case "begin":
		made, err := connection.BeginWithError()
		transactions[asked.Transaction] = made
		return err
	case "commit":
		return transactions[asked.Transaction].Commit()
	case "abort":
		return transactions[asked.Transaction].Abort()
	case "work":
		state.Lock()
		busyMs = asked.Ms
		state.Unlock()
		return nil
	case "disconnect":
		go func() {
			if connection.Disconnect() == nil {
				report("disconnected", nil)
			}
		}()
		return nil
	}
	return fmt.Errorf("there is no command %q", asked.Do)
}

func main() {
	version := "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, dependency := range info.Deps {
			if dependency.Path == module {
				version = dependency.Version[1:]
			}
		}
	}
	report("ready", map[string]any{"client": "go-stomp", "version": version})
	lines := bufio.NewReaderSize(os.Stdin, 1<<20)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var asked command
		if json.Unmarshal(line, &asked) != nil {
			continue
		}
		run := func() {
			if err := obey(asked); err != nil {
				report("failed", map[string]any{"do": asked.Do, "problem": err.Error()})
			} else {
				report("did", map[string]any{"do": asked.Do})
			}
		}
		if asked.Do == "connect" {
			go run() // it returns when CONNECTED has arrived
		} else {
			run()
		}
	}
}
