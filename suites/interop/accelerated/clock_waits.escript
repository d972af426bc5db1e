#!/usr/bin/env escript
%% Waits two seconds in each way that a broker on Erlang waits, and prints what its own clock says of each: "end NAME MILLISECONDS".

main(_) ->
    measure("timer:sleep", fun() -> timer:sleep(2000) end),
    measure("receive after", fun() -> receive after 2000 -> ok end end),
    measure("erlang:send_after", fun() -> erlang:send_after(2000, self(), done), receive done -> ok end end),
    measure("timer:send_after", fun() -> {ok, _} = timer:send_after(2000, done), receive done -> ok end end),
    measure("gen_tcp:accept", fun() ->
        {ok, Socket} = gen_tcp:listen(0, []),
        {error, timeout} = gen_tcp:accept(Socket, 2000)
    end),
    Millis = erlang:system_time(millisecond),
    measure("erlang:system_time", fun() -> until(Millis + 2000) end).

until(End) ->
    case erlang:system_time(millisecond) >= End of
        true -> ok;
        false -> timer:sleep(10), until(End)
    end.

measure(Name, Wait) ->
    io:format("begin ~s~n", [Name]),
    Began = erlang:monotonic_time(millisecond),
    Wait(),
    io:format("end ~s ~b~n", [Name, erlang:monotonic_time(millisecond) - Began]).
