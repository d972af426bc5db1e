// The line protocol of drivers in Go: see docs/reference/client-drivers.md.
package main

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"os"
	"runtime/debug"
	"sync"
	"time"
	"unicode/utf8"
)

// A command of any protocol.
type command struct {
	Do          string
	Host        string
	Port        int
	Version     string
	HeartBeat   []int `json:"heart_beat"`
	Heartbeat   int
	Login       string
	Passcode    string
	Vhost       string
	Destination string
	Queue       string
	Channel     int
	NoAck       bool `json:"no_ack"`
	ID          string
	Ack         string
	Body        string
	Base64      string
	Headers     map[string]string
	ContentType string `json:"content_type"`
	Transaction string
	Message     int
	Multiple    bool
	Ms          int
	IdleMs      int `json:"idle_ms"`
	MaxFrame    int `json:"max_frame"`
	Link        string
	Address     string
	Credit      int
	Mode        string
	Outcome     string
}

var (
	output   sync.Mutex
	state    sync.Mutex
	messages int
	busyMs   int
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

func reportError(err error) {
	report("error", map[string]any{"headers": map[string]string{}, "body": err.Error()})
}

// Report a message, which keep remembers, and work on it for as long as was asked.
func reportMessage(headers map[string]string, body []byte, keep func()) {
	state.Lock()
	keep()
	messages++
	number, work := messages, busyMs
	busyMs = 0
	state.Unlock()
	fields := map[string]any{"number": number, "headers": headers}
	if utf8.Valid(body) {
		fields["body"] = string(body)
	} else {
		fields["base64"] = base64.StdEncoding.EncodeToString(body)
	}
	report("message", fields)
	if work > 0 {
		<-time.After(time.Duration(work) * time.Millisecond)
		report("worked", map[string]any{"number": number})
	}
}

func (asked command) content() []byte {
	if asked.Base64 == "" {
		return []byte(asked.Body)
	}
	body, _ := base64.StdEncoding.DecodeString(asked.Base64)
	return body
}

func version(module string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, dependency := range info.Deps {
			if dependency.Path == module {
				return dependency.Version[1:]
			}
		}
	}
	return "unknown"
}

// Obey the commands on standard input; those that aside names wait for the server, and others do
// not wait for them.
func serve(client, module string, obey func(command) error, aside ...string) {
	report("ready", map[string]any{"client": client, "version": version(module)})
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
			var err error
			if asked.Do == "work" {
				state.Lock()
				busyMs = asked.Ms
				state.Unlock()
			} else {
				err = obey(asked)
			}
			if err != nil {
				report("failed", map[string]any{"do": asked.Do, "problem": err.Error()})
			} else {
				report("did", map[string]any{"do": asked.Do})
			}
		}
		waits := false
		for _, name := range aside {
			waits = waits || name == asked.Do
		}
		if waits {
			go run()
		} else {
			run()
		}
	}
}
