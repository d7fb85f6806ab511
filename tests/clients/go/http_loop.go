// Go's own HTTP client, in a loop on chat completions at OpenAI's own address.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
)

const url = "https://api.openai.com/v1/chat/completions"

type function struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

type call struct {
	Index    int      `json:"index"`
	ID       string   `json:"id"`
	Type     string   `json:"type"`
	Function function `json:"function"`
}

type message struct {
	Role       string `json:"role"`
	Content    string `json:"content"`
	ToolCalls  []call `json:"tool_calls,omitempty"`
	ToolCallID string `json:"tool_call_id,omitempty"`
}

type answer struct {
	Choices []struct {
		Message message `json:"message"`
		Delta   message `json:"delta"`
	} `json:"choices"`
}

// The message of a stream.
func joined(events []byte) (message, error) {
	whole := message{}
	for _, line := range strings.Split(string(events), "\n") {
		data, isData := strings.CutPrefix(line, "data: ")
		if !isData || data == "[DONE]" {
			continue
		}
		event := answer{}
		if err := json.Unmarshal([]byte(data), &event); err != nil {
			return whole, err
		}
		for _, choice := range event.Choices {
			whole.Content += choice.Delta.Content
			for _, part := range choice.Delta.ToolCalls {
				for len(whole.ToolCalls) <= part.Index {
					whole.ToolCalls = append(whole.ToolCalls, call{Type: "function"})
				}
				known := &whole.ToolCalls[part.Index]
				known.ID += part.ID
				known.Function.Name += part.Function.Name
				known.Function.Arguments += part.Function.Arguments
			}
		}
	}
	return whole, nil
}

func ask(messages []message, stream bool) (message, error) {
	tool := json.RawMessage(`{"type": "function", "function": {"name": "counter", "parameters":
		{"type": "object", "properties": {"step": {"type": "integer"}}, "required": ["step"]}}}`)
	asked := map[string]any{
		"model": "gpt-4o", "stream": stream, "messages": messages, "tools": []any{tool},
	}
	body, err := json.Marshal(asked)
	if err != nil {
		return message{}, err
	}
	request, err := http.NewRequest(http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return message{}, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer "+os.Getenv("OPENAI_API_KEY"))
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return message{}, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return message{}, err
	}
	if response.StatusCode != http.StatusOK {
		return message{}, fmt.Errorf("%s: %s", response.Status, text)
	}
	if stream {
		return joined(text)
	}
	whole := answer{}
	if err := json.Unmarshal(text, &whole); err != nil {
		return message{}, err
	}
	return whole.Choices[0].Message, nil
}

func main() {
	stream := slices.Contains(os.Args, "--stream")
	messages := []message{{Role: "user", Content: "Count for ever: call the tool `counter` again and again."}}
	result := map[string]any{"ended": "returned", "error": nil}
	toolsRun := 0
	for {
		said, err := ask(messages, stream)
		if err != nil {
			result["ended"], result["error"], result["text"] = "raised", "error", err.Error()
			break
		}
		said.Role = "assistant"
		messages = append(messages, said)
		if len(said.ToolCalls) == 0 {
			result["text"] = said.Content
			break
		}
		for _, call := range said.ToolCalls {
			toolsRun++
			counted := fmt.Sprintf("counted a step: %s", call.Function.Arguments)
			messages = append(messages, message{Role: "tool", ToolCallID: call.ID, Content: counted})
		}
	}
	result["tools_run"] = toolsRun
	line, _ := json.Marshal(result)
	fmt.Printf("\n%s\n", line)
}
