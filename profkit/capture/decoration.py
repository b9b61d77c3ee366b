"""Decorated functions: a scope and a function in, a function of the same kind that opens ranges out.

A plain function is one range per call, a generator one per resumption (only its own body runs in it), a
coroutine one span from its first step to its end, an asynchronous generator one span per item.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncGenerator, Callable, Generator
from typing import Any

from profkit._core import scope, scoped_function


def decorate(name: scope, function: Any) -> Any:
    """Called by `scope.__call__`; TypeError for anything but a function."""
    if isinstance(function, (classmethod, staticmethod)):
        return type(function)(decorate(name, function.__func__))
    if isinstance(function, type) or not callable(function):
        is_class = isinstance(function, type)
        what = f"the class {function.__qualname__}; decorate its methods" if is_class else repr(function)
        raise TypeError(f"profkit.scope decorates functions and methods, not {what}")
    if inspect.isasyncgenfunction(function):
        return _items(name, function)
    if inspect.iscoroutinefunction(function):
        return _coroutine(name, function)
    if inspect.isgeneratorfunction(function):
        return _resumptions(name, function)
    return functools.update_wrapper(scoped_function(name, function), function)


def _coroutine(name: scope, function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    async def call(*args: Any, **kwargs: Any) -> Any:
        async with name:
            return await function(*args, **kwargs)

    return call


def _resumptions(name: scope, function: Callable[..., Generator[Any, Any, Any]]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        generator = function(*args, **kwargs)
        resume: Callable[[Any], Any] = generator.send
        argument: Any = None
        while True:
            try:
                with name:
                    value = resume(argument)
            except StopIteration as stop:
                return stop.value
            try:
                resume, argument = generator.send, (yield value)
            except BaseException as error:  # GeneratorExit too: the body decides what closing means
                resume, argument = generator.throw, error

    return call


def _items(name: scope, function: Callable[..., AsyncGenerator[Any, Any]]) -> Callable[..., Any]:
    @functools.wraps(function)
    async def call(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        generator = function(*args, **kwargs)
        resume: Callable[[Any], Any] = generator.asend
        argument: Any = None
        while True:
            try:
                async with name:
                    value = await resume(argument)
            except StopAsyncIteration:
                return
            try:
                resume, argument = generator.asend, (yield value)
            except BaseException as error:
                resume, argument = generator.athrow, error

    return call
